"""The members of one cluster on the host: a few numbers each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipool.memory.distances import Array

# Rows of Cluster.whole; Cluster.real holds the D descriptor rows, then these two.
SERIAL, INDEX, SLOT, LABEL = range(4)
UNCERTAINTY, DOUBT = -2, -1


class Cluster:
    """Up to N members in any order, with the exact sum of their descriptors.

    A column a member, so that a row is contiguous: ``real`` is ``(D+2, N)`` with descriptor,
    uncertainty and the uncertainty term of H(x); ``whole`` is ``(4, N)`` with serial number,
    index in the stream (equal to it unless ages count calls), slot of the image and label.
    """

    __slots__ = (
        "ages_from", "centre", "created", "doubt", "last_used", "points", "real", "size", "spot",
        "total", "whole",
    )  # fmt: skip

    def __init__(self, width: int, capacity: int, created: int) -> None:
        self.real = np.empty((width + 2, capacity))
        self.whole = np.empty((4, capacity), dtype=np.int64)
        # Views made once, since each costs as much as adding 64 numbers; ``size`` entries count.
        self.points = self.real[:-2].T  # (N, D)
        self.doubt, self.ages_from = self.real[DOUBT], self.whole[INDEX]  # (N,)
        self.size, self.created, self.last_used = 0, created, created
        self.total = np.zeros(width)
        self.centre, self.spot = self.total, [0.0] * width  # the centroid, as array and as list

    def append(self, real: Array, whole: NDArray[np.int64]) -> None:
        """Add a member."""
        self.real[:, self.size] = real
        self.whole[:, self.size] = whole
        self.total += self.points[self.size]
        self.size += 1
        self._settle()

    def replace(self, position: int, real: Array, whole: NDArray[np.int64]) -> None:
        """Put a newcomer in a member's place."""
        point = self.points[position]
        self.total -= point
        self.real[:, position] = real
        self.total += point
        self.whole[:, position] = whole
        self._settle()

    def fill(self, real: Array, whole: NDArray[np.int64]) -> None:
        """Set all members at once."""
        self.size = real.shape[1]
        self.real[:, : self.size] = real
        self.whole[:, : self.size] = whole
        self.total = np.add.reduce(real[:-2], axis=1)
        self._settle()

    def _settle(self) -> None:
        self.centre = self.total / self.size
        self.spot = self.centre.tolist()

    def order(self) -> NDArray[np.int64]:
        """Return the positions of the members by arrival ``(M,)``."""
        return self.whole[SERIAL, : self.size].argsort()


def keep(
    uncertainty: Array,
    serial: NDArray[np.int64],
    labels: NDArray[np.int64],
    capacity: int,
    class_quota: int | None = None,
) -> NDArray[np.int64]:
    """Return who of a union stays, in order of arrival (Sec. 3.3).

    The ``capacity`` members of lowest uncertainty; among equals the newer. With a quota, no more
    than so many of one known label.

    >>> keep(np.array([0.2, 0.1, 0.2]), np.arange(3), np.zeros(3, int), 2).tolist()
    [1, 2]
    """
    if class_quota is None and len(serial) <= capacity:
        return serial.argsort()
    ranked = np.lexsort((-serial, uncertainty))
    if class_quota is not None:
        ranked = _within_quota(ranked, labels, class_quota)
    chosen = ranked[:capacity]
    return chosen[serial[chosen].argsort()]


def _within_quota(
    ranked: NDArray[np.int64], labels: NDArray[np.int64], quota: int
) -> NDArray[np.int64]:
    seen: dict[int, int] = {}
    kept = []
    for row in ranked.tolist():
        label = int(labels[row])
        seen[label] = seen.get(label, 0) + 1
        if label < 0 or seen[label] <= quota:
            kept.append(row)
    return np.array(kept, dtype=np.int64)


def merge(
    first: Cluster, second: Cluster, class_quota: int | None = None
) -> tuple[Cluster, list[int]]:
    """Return the union of two clusters, cut to the capacity, and the slots that it frees."""
    real = np.concatenate((first.real[:, : first.size], second.real[:, : second.size]), axis=1)
    whole = np.concatenate((first.whole[:, : first.size], second.whole[:, : second.size]), axis=1)
    width, capacity = len(first.total), first.real.shape[1]
    stay = keep(real[UNCERTAINTY], whole[SERIAL], whole[LABEL], capacity, class_quota)
    merged = Cluster(width, capacity, min(first.created, second.created))
    merged.last_used = max(first.last_used, second.last_used)
    merged.fill(real[:, stay], whole[:, stay])
    left = np.ones(whole.shape[1], dtype=bool)
    left[stay] = False
    return merged, whole[SLOT, left].tolist()
