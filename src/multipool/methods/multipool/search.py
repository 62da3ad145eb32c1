"""The search for a second domain in a pool, which another thread may do ahead of time."""

from __future__ import annotations

import os
import threading

import numpy as np

from multipool.core import numpy_generator
from multipool.methods.multipool.rules import Bools, Floats, Ints
from multipool.methods.multipool.split import two_domains


def crowd(owners: Ints, weights: Floats, least: int) -> tuple[int, Ints]:
    """Return the pool of most images and their places, none if fewer than ``least``.

    ``owners`` ``(N,)``: the pool of each image, -1: none. ``weights`` ``(P,)``: 0 is a free place,
    without which there is nothing to search for.

    >>> crowd(np.array([-1, 0, 1, 1]), np.array([1.0, 2.0, 0.0]), least=2)
    (1, array([2, 3]))
    """
    owned = owners[owners >= 0]
    if not len(owned) or (weights > 0).all():
        return -1, owners[:0]
    pool = int(np.bincount(owned).argmax())
    mine = np.flatnonzero(owners == pool)
    return pool, mine if len(mine) >= least else mine[:0]


class Search:
    """Whether points ``(N, D)`` come from two domains: found when it is asked for, or before.

    It takes some 10 ms, most of them outside of Python, and what it depends on is known a batch
    ahead: begun early, it is over when the next batch asks. The answer is the same either way.
    """

    def __init__(self, points: Floats, seen: int, seed: int, least: float) -> None:
        self._points, self._seen, self._seed, self._least = points, seen, seed, least
        self._found: Bools | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def begin(self) -> None:
        """Let another thread search."""
        self._thread = threading.Thread(target=self._run, name="multipool-search")
        self._thread.start()

    def is_of(self, points: Floats, seen: int) -> bool:
        """Tell whether this is the search in these points, after ``seen`` images."""
        return self._seen == seen and np.array_equal(self._points, points)

    def result(self) -> Bools | None:
        """Return which points are of the second domain, or None if there is none."""
        if self._thread is None or self._process != os.getpid():  # a fork has no such thread
            self._run()
        else:
            self._thread.join()
        return self._found

    def _run(self) -> None:
        rng = numpy_generator(self._seed, "split", self._seen)
        self._found = two_domains(self._points, rng, self._least)
