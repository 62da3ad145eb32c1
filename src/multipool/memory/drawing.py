"""Draw the samples of an adaptation batch at random, without repeats (Sec. 3.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def draw(
    sizes: Sequence[int],
    counts: Sequence[int] | None,
    n: int,
    fill: bool,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Return rows ``(M,)`` of the listing of all clusters, one after the other.

    One permutation per cluster in creation order gives its ``counts``; with ``fill`` one more,
    over the rest, tops up to min(n, all). ``counts=None`` is one permutation of everything.
    """
    total = sum(sizes)
    if counts is None:
        return generator.permutation(total)[:n]
    chosen, start = [], 0
    for size, share in zip(sizes, counts, strict=True):
        chosen.append(generator.permutation(size)[:share] + start)
        start += size
    rows = np.concatenate(chosen)
    if fill:
        rest = np.ones(total, dtype=bool)
        rest[rows] = False
        others = np.flatnonzero(rest)
        more = generator.permutation(len(others))[: min(n, total) - len(rows)]
        rows = np.concatenate((rows, others[more]))
    return rows
