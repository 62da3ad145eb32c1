"""RoTTA's pool: class-balanced, timely and certain (CSTU; Yuan et al., CVPR 2023, Sec. 3.3)."""

from __future__ import annotations

import math

import numpy as np

from multipool.memory import switch
from multipool.memory.arrivals import Arrivals
from multipool.memory.checks import number
from multipool.memory.distances import Array
from multipool.memory.pool import Item, Pool
from multipool.memory.replacements import SATURATED
from multipool.memory.store import Slots


class ClassBalancedPool(Pool):
    """A quota of N / L samples a class; the oldest and most uncertain leave first.

    Below its quota a class takes from the classes that hold most, at it from itself; the worst of
    those leaves if it scores strictly above the newcomer, else the newcomer is turned away. Ties:
    the last in reading order leaves. Decisions equal the published code's.
    """

    def __init__(
        self,
        num_classes: int,
        capacity: int = 64,
        storage: str = "uint8",
        seed: int = 0,
        age_weight: float = 1.0,
        uncertainty_weight: float = 1.0,
    ) -> None:
        super().__init__(num_classes, capacity, storage, seed)
        self._age_weight = number("age_weight", age_weight)
        self._uncertainty_weight = number("uncertainty_weight", uncertainty_weight)
        self._quota = capacity / num_classes
        self._compiled = switch.available()
        self._by_age = np.zeros(0)  # the age term of the score

    def _place(self, arrivals: Arrivals) -> tuple[Slots, Slots]:
        if not self._compiled:
            return super()._place(arrivals)
        size, items, now = len(arrivals.labels), self._items(), self._now
        doubts = np.zeros(self.capacity)
        whole = np.zeros((4, self.capacity), dtype=np.int64)  # arrived, label, slot; free slots
        if items:
            part = slice(len(items))
            whole[0, part], whole[2, part], whole[1, part], doubts[part] = zip(*items, strict=True)
        whole[3, : len(self._free)] = self._free
        counts, written = np.array([len(items), len(self._free), 0, 0]), np.empty((2, size), int)
        number = switch.decide.pool(
            (self.capacity, self.num_classes, self._quota, self._uncertainty_weight,
             math.log(self.num_classes)),
            self._timeliness(now + size - min([now, *(item.arrived for item in items)])),
            doubts, *whole, counts, arrivals.uncertainty, arrivals.labels, written, now,
        )  # fmt: skip
        self._occupied, spare, evicted, turned_away = counts.tolist()
        part = slice(self._occupied)
        arrived, labels, slots = whole[:3, part].tolist()
        self._groups = {}
        for item in sorted(map(Item, arrived, slots, labels, doubts[part].tolist())):
            self._groups.setdefault(item.label, []).append(item)
        self._free, self._now = whole[3, :spare].tolist(), now + size
        happened = {"added": size, "replaced": evicted, "rejected": turned_away}
        for name, count in happened.items():
            self._events[name] += count
        return written[0, :number], written[1, :number]

    def _timeliness(self, oldest: int) -> Array:
        """Return the age term of the score for ages from 0 to ``oldest`` or more."""
        known, needed = len(self._by_age), min(oldest, SATURATED * self.capacity) + 1
        if known < needed:
            more = [self._timely(age) for age in range(known, needed)]
            self._by_age = np.concatenate((self._by_age, more))
        return self._by_age

    def _make_room(self, label: int, uncertainty: float) -> bool:
        if len(self._groups.get(label, ())) >= self._quota:
            return self._evict_worst([label], uncertainty)
        if self._occupied < self.capacity:
            return True
        return self._evict_worst(self._majority(), uncertainty)

    def _evict_worst(self, groups: list[int], uncertainty: float) -> bool:
        """Evict the highest score of these groups if it is above the newcomer's."""
        worst, place = self._score(0, uncertainty), None
        for group in groups:
            for position, item in enumerate(self._groups[group]):
                score = self._score(self._now - item.arrived, item.uncertainty)
                # Equal to the newcomer is not above it; equal to a rival is: the last one leaves.
                if score > worst or (place is not None and score == worst):
                    worst, place = score, (group, position)
        if place is None:
            return False
        self._evict(*place)
        return True

    def _score(self, age: int, uncertainty: float) -> float:
        doubt = self._uncertainty_weight * uncertainty / math.log(self.num_classes)
        return self._timely(age) + doubt

    def _timely(self, age: int) -> float:
        return self._age_weight / (1 + math.exp(-age / self.capacity))
