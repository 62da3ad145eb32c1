"""Choose a smaller set of rows, or deal them out, without upsetting the balance of classes."""

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
    rank, turn = _by_class(labels, numpy_generator(seed, "subset"))
    return np.sort(np.lexsort((turn, rank))[:count])


def dealt_rows(labels: Ints, hands: int, seed: int = 0) -> list[Ints]:
    """Deal all rows of ``(n,)`` labels to ``hands``, class by class like cards; ascending.

    Each row is in one hand. Of a class no hand has more than one row more than another, and the
    class after it goes on where that one ended, so no hand has more than one more in all.

    >>> [hand.tolist() for hand in dealt_rows(np.array([5, 5, 5, 5]), 4)]  # one each
    [[1], [3], [0], [2]]
    """
    rank, turn = _by_class(labels, numpy_generator(seed, "dealt"))
    place = np.empty(len(labels), dtype=np.int64)
    place[np.lexsort((rank, turn))] = np.arange(len(labels)) % hands
    return [np.flatnonzero(place == hand) for hand in range(hands)]


def _by_class(labels: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return each row's random place in its class, ``(n,)``, and the random place of the class."""
    shuffled = rng.permutation(len(labels))
    classes, kind = np.unique(labels[shuffled], return_inverse=True)
    counts = np.bincount(kind)
    by_class = np.argsort(kind, kind="stable")
    rank, turn = np.empty((2, len(labels)), dtype=np.int64)
    rank[shuffled[by_class]] = np.arange(len(labels)) - (np.cumsum(counts) - counts)[kind[by_class]]
    turn[shuffled] = rng.permutation(len(classes))[kind]
    return rank, turn
