"""RoTTA's pool: class-balanced, timely and certain (CSTU; Yuan et al., CVPR 2023, Sec. 3.3)."""

from __future__ import annotations

from math import exp, log

from multipool.memory.checks import number
from multipool.memory.pool import Item, Pool

_AGES = 1024  # ages whose part of a score is kept


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
        # Parts of scores, kept: a full pool asks for all its samples' again and again.
        self._timely = [self._age_part(age) for age in range(_AGES)]
        self._doubtful = [0.0] * capacity  # by slot

    def _make_room(self, label: int, uncertainty: float) -> bool:
        if len(self._groups.get(label, ())) >= self._quota:
            return self._evict_worst([label], uncertainty)
        if self._occupied < self.capacity:
            return True
        return self._evict_worst(self._majority(), uncertainty)

    def _evict_worst(self, groups: list[int], uncertainty: float) -> bool:
        """Evict the highest score of these groups if it is above the newcomer's."""
        now, timely, doubtful = self._now, self._timely, self._doubtful
        rivals = [item for group in groups for item in self._groups[group]]
        scores = [
            (timely[now - arrived] if now - arrived < _AGES else self._age_part(now - arrived))
            + doubtful[slot]
            for arrived, slot, _, _ in rivals
        ]
        worst = max(scores)
        if worst <= self._age_part(0) + self._doubt_part(uncertainty):
            return False
        place = len(scores) - 1 - scores[::-1].index(worst)  # of equal rivals the last one leaves
        group = rivals[place].label
        self._evict(group, self._groups[group].index(rivals[place]))
        return True

    def _insert(self, item: Item) -> None:
        super()._insert(item)
        self._doubtful[item.slot] = self._doubt_part(item.uncertainty)

    def _age_part(self, age: int) -> float:
        return self._age_weight / (1 + exp(-age / self.capacity))

    def _doubt_part(self, uncertainty: float) -> float:
        return self._uncertainty_weight * uncertainty / self._log_classes
