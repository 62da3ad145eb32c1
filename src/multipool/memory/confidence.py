"""SoTTA's pool: confident samples, uniform over classes (HUS; Gong et al., NeurIPS 2023)."""

from __future__ import annotations

import math

from multipool.memory.checks import number
from multipool.memory.pool import Pool


class ConfidencePool(Pool):
    """Take in confident samples only; when full, a random one of a largest class leaves.

    SoTTA asks for a softmax maximum above a threshold. A bank is given the uncertainty in nats
    instead, so confident means ``uncertainty <= threshold``; the default is 0.4 ln L. A newcomer
    of a largest class takes the place of one of its own class.

    Args:
        num_classes: L; labels are -1 (unknown) to L - 1.
        capacity: how many samples it holds, N.
        storage: how images are kept: ``"uint8"`` in a quarter of the space.
        seed: of its random draws.
        threshold: the uncertainty, in nats, up to which a sample is taken in.

    Example:
        >>> import torch
        >>> pool = ConfidencePool(num_classes=10, threshold=1.0)
        >>> pool.add(torch.rand(2, 3, 4, 4), uncertainty=torch.tensor([0.5, 2.0]))
        >>> len(pool)
        1

    References:
        HUS of Gong et al., SoTTA: Robust Test-Time Adaptation on Noisy Data Streams, NeurIPS 2023.
    """

    def __init__(
        self,
        num_classes: int,
        capacity: int = 64,
        storage: str = "uint8",
        seed: int = 0,
        threshold: float | None = None,
    ) -> None:
        super().__init__(num_classes, capacity, storage, seed)
        if threshold is None:
            threshold = 0.4 * math.log(num_classes)
        self.threshold = number("threshold", threshold, infinite=True)

    def _make_room(self, label: int, uncertainty: float) -> bool:
        if uncertainty > self.threshold:
            return False
        if self._occupied == self.capacity:
            largest = self._majority()
            if label not in largest:
                label = largest[int(self._generator.integers(len(largest)))]
            self._evict_random(label)
        return True
