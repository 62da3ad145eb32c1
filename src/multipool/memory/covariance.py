"""The running covariance behind the Mahalanobis distance."""

from __future__ import annotations

import numpy as np

from multipool.memory.distances import Array


class Covariance:
    """Sums over all descriptors seen, stored or not, added one by one in stream order."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.total = np.zeros(width)
        self.products = np.zeros((width, width))

    def add(self, descriptor: Array) -> None:
        """Count one descriptor ``(D,)``."""
        self.count += 1
        self.total += descriptor
        self.products += np.multiply.outer(descriptor, descriptor)

    def precision(self) -> Array | None:
        """Return the inverse of 0.9 S + 0.1 tr(S)/D I, S biased; ``None`` is the identity.

        The identity serves until 2D descriptors were seen, and while they do not vary at all.
        """
        width = len(self.total)
        if self.count < 2 * width:
            return None
        mean = self.total / self.count
        spread = self.products / self.count - np.multiply.outer(mean, mean)
        trace = float(np.trace(spread))
        # Rounding alone leaves about 1e-16; real spreads on the 2^-24 grid are above 1e-15.
        if trace <= 1e-14:
            return None
        shrunk: Array = 0.9 * spread + 0.1 * trace / width * np.eye(width)
        return np.asarray(np.linalg.inv(shrunk), dtype=np.float64)
