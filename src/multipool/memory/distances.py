"""How far descriptors are from one of them; one choice serves assignment, merging and H(x).

Each function takes points ``(M, D)``, one point ``(D,)`` or one for each ``(M, D)``, and a
precision matrix ``(D, D)`` that only ``mahalanobis`` reads, and returns ``(M,)``. All is float64,
and a point's distance does not depend on how many others are asked for with it: equal points tie
exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Distance = Callable[[Array, Array, Array | None], Array]


def l2(points: Array, point: Array, precision: Array | None = None) -> Array:
    """Return Euclidean distances (Eq. 4).

    >>> l2(np.array([[3.0, 4.0]]), np.zeros(2)).tolist()
    [5.0]
    """
    gap = points - point
    gap *= gap
    return np.sqrt(_sums(gap))


def l1(points: Array, point: Array, precision: Array | None = None) -> Array:
    """Return sums of absolute differences."""
    return _sums(np.abs(points - point))


def cosine(points: Array, point: Array, precision: Array | None = None) -> Array:
    """Return 1 - cos; a zero vector is at 1 from everything but another zero vector."""
    dots, squares = _sums(points * point), _sums(points * points)
    # One root of the product, not a product of roots: a vector is then at exactly 0 from itself.
    others = _sums(np.atleast_2d(point * point))
    norms = np.sqrt(squares * others)
    gaps = 1 - np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    gaps[(squares == 0) & (others == 0)] = 0.0
    return gaps


def mahalanobis(points: Array, point: Array, precision: Array | None = None) -> Array:
    """Return sqrt(g' P g), P the precision of the descriptors seen (``None``: identity)."""
    if precision is None:
        return l2(points, point)
    gap = points - point
    turned = np.zeros_like(gap)  # (M, D); not by BLAS, whose sums depend on M
    for column, row in zip(gap.T, precision, strict=True):
        turned += column[:, None] * row
    return np.sqrt(np.maximum(_sums(turned * gap), 0.0))


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


def _sums(terms: Array) -> Array:
    """Add ``(M, D)`` over D strictly in order, whatever M and the layout in memory."""
    if terms.shape[1] < 8:  # numpy adds so few in order, and faster than by accumulate
        return np.add.reduce(terms, axis=1)
    return np.add.accumulate(terms, axis=1)[:, -1]


DISTANCES: dict[str, Distance] = {
    "l2": l2,
    "l1": l1,
    "cosine": cosine,
    "mahalanobis": mahalanobis,
}

_BEST = {"l2": 0.3, "l1": 0.5, "cosine": 0.05, "mahalanobis": 1.0}
_NO_DEFAULT = ("spatial_mean", "histogram")


def default_threshold(descriptor: str, distance: str) -> float:
    """Return the paper's best threshold for this distance (Tables 3 and S2), or ``ValueError``."""
    if descriptor in _NO_DEFAULT:
        raise ValueError(
            f"descriptor '{descriptor}' has no default threshold; pass threshold=, "
            "the distance from which on a sample opens a new cluster"
        )
    return 5.0 if (descriptor, distance) == ("feature", "l2") else _BEST[distance]
