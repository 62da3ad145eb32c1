"""Choose a smaller set of rows without upsetting the balance of classes."""

from __future__ import annotations

import numpy as np

from multipool.core import numpy_generator
from multipool.data.protocol import Ints


def balanced_rows(labels: Ints, count: int | None, seed: int = 0) -> Ints:
    """Return ``count`` rows of ``(n,)`` labels, ascending, as evenly spread over classes as can be.

    Random images of random classes; class counts differ by at most one until a class runs out.
    All rows come back when ``count`` is None or more than there are.

    >>> rows = balanced_rows(np.array([0, 0, 0, 0, 1, 1, 2]), 3)
    >>> np.array([0, 0, 0, 0, 1, 1, 2])[rows].tolist()
    [0, 1, 2]
    """
    if count is None or count >= len(labels):
        return np.arange(len(labels))
    rng = numpy_generator(seed, "subset")
    shuffled = rng.permutation(len(labels))
    classes, kind = np.unique(labels[shuffled], return_inverse=True)
    counts = np.bincount(kind)
    by_class = np.argsort(kind, kind="stable")
    rank = np.empty(len(labels), dtype=np.int64)
    rank[by_class] = np.arange(len(labels)) - (np.cumsum(counts) - counts)[kind[by_class]]
    turn = rng.permutation(len(classes))[kind]
    return np.sort(shuffled[np.lexsort((turn, rank))[:count]])
