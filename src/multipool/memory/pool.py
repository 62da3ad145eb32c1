"""What all single pools share: groups of items, their images, their state; and the plainest two."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from multipool.core import Retrieved, numpy_generator, numpy_state, restore_numpy
from multipool.memory.arrivals import Arrivals, arrive, check_batch
from multipool.memory.checks import MOST_CLASSES, MOST_SAMPLES, MOST_SEEN, count, one_of, whole
from multipool.memory.protocol import new_events
from multipool.memory.state import check_keys, host
from multipool.memory.store import STORAGES, ImageStore, Slots

STATE_NAMES = {"images", "dtype", "random", "index", "labels", "uncertainty", "now"}


class Item(NamedTuple):
    """One stored sample."""

    arrived: int  # index of the sample in the stream
    slot: int  # of its image
    label: int  # -1: unknown
    uncertainty: float  # nats


class Pool(ABC):
    """Up to ``capacity`` samples in groups; a subclass says who makes room for whom.

    ``retrieve`` hands out everything, whatever ``n``: group by group in ascending order, each in
    order of insertion, as the published pools do. Groups are the predicted labels; unknown
    labels (-1) form one of their own.

    Args:
        num_classes: L.
        capacity: samples it holds.
        storage: "uint8" keeps round(255 x), "float" the first batch's type.
        seed: of random draws.
    """

    def __init__(
        self, num_classes: int, capacity: int = 64, storage: str = "uint8", seed: int = 0
    ) -> None:
        self.num_classes = whole("num_classes", num_classes, 2, MOST_CLASSES)
        self.capacity = whole("capacity", capacity, 1, MOST_SAMPLES)
        one_of("storage", storage, STORAGES)
        self._seed = whole("seed", seed, 0)
        self._store = ImageStore(capacity, storage)
        self._events = new_events()
        self.clear()

    @property
    def events(self) -> dict[str, int]:
        """What happened since construction, by name."""
        return dict(self._events)

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """(C, H, W) of the images stored, and so of all that may come; None: not known yet."""
        return self._store.shape

    def __len__(self) -> int:
        return self._occupied

    @torch.no_grad()
    def add(
        self,
        images: Tensor,
        uncertainty: Tensor | None = None,
        labels: Tensor | None = None,
        features: Tensor | None = None,
        *,
        checked: bool = False,
    ) -> None:
        """Offer a batch, one sample after another; see :meth:`MultiClusterMemory.add`."""
        batch = check_batch(images, uncertainty, labels, features)
        self._store.check(images)
        arrivals = arrive(batch, None, self.num_classes, checked=checked)
        self._store.prepare(images)
        slots, rows = self._place(arrivals)
        self._store.write(slots, images, rows)

    @torch.no_grad()
    def retrieve(self, n: int | None = 64) -> Retrieved:
        """Return everything in the published order; ``n`` is checked and not needed."""
        count(n)
        items = self._items()
        with torch.inference_mode(False):
            return Retrieved(
                images=self._store.read([item.slot for item in items]),
                ages=torch.tensor([self._now - item.arrived for item in items], dtype=torch.int64),
                uncertainty=torch.tensor([item.uncertainty for item in items], dtype=torch.float64),
                labels=torch.tensor([item.label for item in items], dtype=torch.int64),
                clusters=torch.zeros(len(items), dtype=torch.int64),
            )

    def clear(self) -> None:
        """Return to the state after construction; only ``events`` go on."""
        self._groups: dict[int, list[Item]] = {}
        self._occupied = 0
        self._free = list(range(self.capacity))[::-1]
        self._now = 0
        self._generator = numpy_generator(self._seed)
        self._store.clear()

    def state_dict(self) -> dict[str, Tensor]:
        """Return a copy of everything the next decisions depend on, flat, str to Tensor."""
        items = self._items()
        return {
            "images": self._store.raw([item.slot for item in items]),
            "dtype": torch.zeros((), dtype=self._store.dtype),
            "random": numpy_state(self._generator),
            "index": torch.tensor([item.arrived for item in items], dtype=torch.int64),
            "labels": torch.tensor([item.label for item in items], dtype=torch.int64),
            "uncertainty": torch.tensor([i.uncertainty for i in items], dtype=torch.float64),
            "now": torch.tensor(self._now),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state saved by a pool with the same options, or raise ``ValueError``."""
        check_keys(state, STATE_NAMES)
        index = host(state, "index", torch.int64, 1)
        labels = host(state, "labels", torch.int64, 1)
        doubts = host(state, "uncertainty", torch.float64, 1)
        now = int(host(state, "now", torch.int64, 0))
        if not len(index) == len(labels) == len(doubts) <= self.capacity:
            raise ValueError(f"a saved pool must hold up to {self.capacity} rows, got {len(index)}")
        if ((labels < -1) | (labels >= self.num_classes)).any():
            raise ValueError(f"saved labels must be -1 to {self.num_classes - 1}")
        if not 0 <= now <= MOST_SEEN:
            raise ValueError(f"saved now must be 0 to 2^53 samples, got {now}")
        if len(np.unique(index)) != len(index) or ((index < 0) | (index >= now)).any():
            raise ValueError("saved index must be unique and in the past")
        items = [
            Item(int(i), slot, int(label), float(doubt))
            for slot, (i, label, doubt) in enumerate(zip(index, labels, doubts, strict=True))
        ]
        if items != sorted(items, key=lambda item: (self._group(item.label), item.arrived)):
            raise ValueError("saved samples must be in the order in which they are handed out")
        generator = numpy_generator(self._seed)
        restore_numpy(generator, state["random"])
        store = ImageStore(self.capacity, self._store.storage)
        store.restore(state["images"], state["dtype"], len(items))
        self.clear()
        self._store, self._generator, self._now = store, generator, now
        for item in items:
            self._insert(item)

    @abstractmethod
    def _make_room(self, label: int, uncertainty: float) -> bool:
        """Evict if need be; return whether the newcomer is let in."""

    def _group(self, label: int) -> int:
        return label

    def _place(self, arrivals: Arrivals) -> tuple[Slots, Slots]:
        """Offer a batch; return slots and rows of the images to be written there."""
        written = {}
        pairs = zip(arrivals.labels.tolist(), arrivals.uncertainty.tolist(), strict=True)
        for row, (label, doubt) in enumerate(pairs):
            slot = self._offer(label, doubt)
            if slot is not None:
                written[slot] = row
        return list(written), list(written.values())

    def _offer(self, label: int, uncertainty: float) -> int | None:
        """Let one sample in or not; return its slot."""
        before = self._occupied
        admitted = self._make_room(label, uncertainty)
        index, self._now = self._now, self._now + 1
        self._events["added"] += 1
        self._events["replaced"] += before - self._occupied
        if not admitted:
            self._events["rejected"] += 1
            return None
        item = Item(index, self._free[-1], label, uncertainty)
        self._insert(item)
        return item.slot

    def _insert(self, item: Item) -> None:
        self._groups.setdefault(self._group(item.label), []).append(item)
        self._free.remove(item.slot)
        self._occupied += 1

    def _evict(self, group: int, position: int) -> None:
        item = self._groups[group].pop(position)
        if not self._groups[group]:
            del self._groups[group]
        self._free.append(item.slot)
        self._occupied -= 1

    def _evict_random(self, group: int) -> None:
        self._evict(group, int(self._generator.integers(len(self._groups[group]))))

    def _majority(self) -> list[int]:
        """Return the groups with the most items, ascending."""
        most = max(map(len, self._groups.values()))
        return sorted([group for group, items in self._groups.items() if len(items) == most])

    def _items(self) -> list[Item]:
        return [item for group in sorted(self._groups) for item in self._groups[group]]


class EntropyPool(Pool):
    """Take every sample in; when full, a random one of a random largest class leaves.

    There is no quota: one class may fill the pool.

    Args:
        num_classes: L; labels are -1 (unknown) to L - 1.
        capacity: how many samples it holds, N.
        storage: how images are kept: ``"uint8"`` in a quarter of the space.
        seed: of its random draws.

    Example:
        >>> pool = EntropyPool(num_classes=2, capacity=4)
        >>> pool.add(torch.rand(9, 3, 4, 4), labels=torch.zeros(9, dtype=torch.int64))
        >>> len(pool)
        4

    References:
        Zhou et al., Resilient Practical Test-Time Adaptation (arXiv 2401.14619).
    """

    def _make_room(self, label: int, uncertainty: float) -> bool:
        if self._occupied == self.capacity:
            largest = self._majority()
            self._evict_random(largest[int(self._generator.integers(len(largest)))])
        return True


class FifoPool(Pool):
    """Keep the last ``capacity`` samples; hand them out oldest first.

    Args:
        num_classes: L; labels are -1 (unknown) to L - 1.
        capacity: how many samples it holds, N.
        storage: how images are kept: ``"uint8"`` in a quarter of the space.
        seed: of its random draws.

    Example:
        >>> pool = FifoPool(num_classes=2, capacity=2)
        >>> pool.add(torch.rand(3, 3, 4, 4))
        >>> pool.retrieve().ages.tolist()
        [2, 1]
    """

    def _group(self, label: int) -> int:
        return 0

    def _make_room(self, label: int, uncertainty: float) -> bool:
        if self._occupied == self.capacity:
            self._evict(0, 0)
        return True
