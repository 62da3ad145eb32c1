"""RoTTA's pool: class-balanced, timely and certain (CSTU; Yuan et al., CVPR 2023, Sec. 3.3)."""

from __future__ import annotations

from math import exp, log

from multipool.memory.checks import number
from multipool.memory.pool import Pool


class ClassBalancedPool(Pool):
    """A quota of N / L samples a class; the oldest and most uncertain leave first.

    Below its quota a class takes from the classes that hold most, at it from itself; the worst of
    those leaves if it scores strictly above the newcomer, else the newcomer is turned away. Ties:
    the last in reading order leaves. Decisions equal the published code's.

    Args:
        num_classes: L; labels are -1 (unknown) to L - 1.
        capacity: how many samples it holds, N.
        storage: how images are kept: ``"uint8"`` in a quarter of the space.
        seed: of its random draws; this pool makes none.
        age_weight: weight of a sample's age in its score.
        uncertainty_weight: weight of its uncertainty.

    Example:
        >>> import torch
        >>> pool = ClassBalancedPool(num_classes=2, capacity=2)
        >>> pool.add(torch.rand(3, 3, 4, 4), labels=torch.tensor([0, 0, 1]))
        >>> pool.retrieve().labels.tolist()
        [0, 1]

    References:
        CSTU of Yuan, Xie, Li: Robust Test-Time Adaptation in Dynamic Scenarios, CVPR 2023.
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
        self._log_classes = log(num_classes)

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
        timely = self._age_weight / (1 + exp(-age / self.capacity))
        return timely + self._uncertainty_weight * uncertainty / self._log_classes
