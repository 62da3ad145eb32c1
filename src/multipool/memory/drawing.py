"""Choose the samples of an adaptation batch, without repeats (Sec. 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
# Puts members, given their serial numbers by arrival, into the order in which they are taken.
Order = Callable[[Rows, np.random.Generator], Rows]


def random(serials: Rows, generator: np.random.Generator) -> Rows:
    """Take members at random: one permutation."""
    return generator.permutation(len(serials)).astype(np.int64)


def newest(serials: Rows, generator: np.random.Generator) -> Rows:
    """Take the latest arrivals first; draws no random number.

    >>> newest(np.array([3, 9, 4]), np.random.default_rng(0)).tolist()
    [1, 2, 0]
    """
    return np.argsort(-serials)


DRAWS: dict[str, Order] = {"random": random, "newest": newest}


def draw(
    serials: Rows,
    sizes: Sequence[int],
    counts: Sequence[int] | None,
    n: int,
    fill: bool,
    order: Order,
    generator: np.random.Generator,
) -> Rows:
    """Return rows ``(M,)`` of the listing of all clusters, one after the other.

    Each cluster in creation order gives its ``counts``, taken by ``order``; with ``fill`` the
    rest tops up to min(n, all) by ``order`` too. ``counts=None`` orders everything at once.
    ``serials`` are those of all members, cluster by cluster.
    """
    if counts is None:
        return order(serials, generator)[:n]
    chosen, start = [], 0
    for size, share in zip(sizes, counts, strict=True):
        chosen.append(order(serials[start : start + size], generator)[:share] + start)
        start += size
    rows = np.concatenate(chosen)
    if fill:
        rest = np.ones(len(serials), dtype=bool)
        rest[rows] = False
        others = np.flatnonzero(rest)
        more = order(serials[others], generator)[: min(n, len(serials)) - len(rows)]
        rows = np.concatenate((rows, others[more]))
    return rows
