"""The members of one cluster on the host: a few numbers each."""

from __future__ import annotations

import numpy as np

from multipool.memory.distances import Array, Whole

# Rows of Cluster.whole; Cluster.real holds the D descriptor rows, then these two.
SERIAL, INDEX, SLOT, LABEL = range(4)
UNCERTAINTY, DOUBT = -2, -1


def pack(real: Array, whole: Whole) -> Array:
    """Return ``(D+6, M)`` that holds the bits of ``real`` (D+2, M) and ``whole`` (4, M)."""
    # One array, since to copy a member takes as long whether it has 4 numbers or 12.
    return np.concatenate((real, whole.view(np.float64)))


class Cluster:
    """Up to N members in any order, with the exact sum of their descriptors.

    A column a member, so that a row is contiguous. ``members`` packs two arrays: ``real`` is
    ``(D+2, N)`` with descriptor, uncertainty and the uncertainty term of H(x); ``whole`` is
    ``(4, N)`` with serial number, index in the stream (equal to it unless ages count calls),
    slot of the image and label.
    """

    __slots__ = (
        "ages_from", "anchor", "centre", "count", "created", "doubt", "kept", "last_used",
        "members", "points", "real", "rounding", "size", "spot", "total", "whole",
    )  # fmt: skip

    def __init__(self, width: int, capacity: int, created: int) -> None:
        self.members = np.empty((width + 6, capacity))
        self.real, self.whole = self.members[:-4], self.members[-4:].view(np.int64)
        # Views made once, since each costs as much as adding 64 numbers; ``size`` entries count.
        self.points = self.real[:-2].T  # (N, D)
        self.doubt, self.ages_from = self.real[DOUBT], self.whole[INDEX]  # (N,)
        self.size, self.created, self.last_used = 0, created, created
        self.total = np.zeros(width)
        self.count = np.zeros(())  # the size once more: numpy divides twice as fast by an array
        self.centre, self.spot = np.zeros(width), (0.0,) * width  # the centroid, twice
        # What Scores keeps about a full cluster; nothing depends on it but time.
        self.kept = np.empty(capacity)
        self.anchor: tuple[float, ...] | None = None
        self.rounding = 0.0

    def __reduce__(self) -> tuple[object, ...]:
        """Copy by the numbers alone: copied one by one, the views would be views no more."""
        return _restored, (
            self.members[:, : self.size],
            self.members.shape,
            self.created,
            self.last_used,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers, those of the anchor included before there is one."""
        arrays = (self.members, self.kept, self.total, self.count, self.centre)
        return sum(array.nbytes for array in arrays) + 2 * 32 * len(self.spot)  # 32 in a tuple

    def append(self, member: Array, slot: int) -> None:
        """Add a member, packed ``(D+6,)``, whose image is in a slot."""
        position = self.size
        self.members[:, position] = member
        self.whole[SLOT, position] = slot
        self.total += self.points[position]
        self.size = position + 1
        self._settle()

    def replace(self, position: int, member: Array) -> int:
        """Put a newcomer, packed ``(D+6,)``, in a member's place and slot; return the slot."""
        point, slot = self.points[position], int(self.whole[SLOT, position])
        self.total -= point
        self.members[:, position] = member
        self.total += point
        self.whole[SLOT, position] = slot
        self._settle()
        return slot

    def fill(self, members: Array) -> None:
        """Set all members at once, packed ``(D+6, M)``."""
        self.size = members.shape[1]
        self.members[:, : self.size] = members
        self.total = np.add.reduce(members[:-6], axis=1)
        self._settle()

    def _settle(self) -> None:
        self.count.fill(self.size)
        np.divide(self.total, self.count, out=self.centre)
        self.spot = tuple(self.centre.tolist())


def _restored(members: Array, shape: tuple[int, int], created: int, last_used: int) -> Cluster:
    cluster = Cluster(shape[0] - 6, shape[1], created)
    cluster.last_used = last_used
    cluster.fill(members)
    return cluster


def keep(
    uncertainty: Array,
    serial: Whole,
    labels: Whole,
    capacity: int,
    class_quota: int | None = None,
) -> Whole:
    """Return who of a union stays, in order of arrival (Sec. 3.3).

    The ``capacity`` members of lowest uncertainty; among equals the newer. With a quota, no more
    than so many of one known label.

    >>> keep(np.array([0.2, 0.1, 0.2]), np.arange(3), np.zeros(3, np.int64), 2).tolist()
    [1, 2]
    """
    if class_quota is None and len(serial) <= capacity:
        return serial.argsort()
    ranked = np.lexsort((-serial, uncertainty))
    if class_quota is not None:
        ranked = _within_quota(ranked, labels, class_quota)
    chosen = ranked[:capacity]
    return chosen[serial[chosen].argsort()]


def _within_quota(ranked: Whole, labels: Whole, quota: int) -> Whole:
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
    union = np.concatenate((first.members[:, : first.size], second.members[:, : second.size]), 1)
    real, whole = union[:-4], union[-4:].view(np.int64)
    width, capacity = len(first.total), first.members.shape[1]
    stay = keep(real[UNCERTAINTY], whole[SERIAL], whole[LABEL], capacity, class_quota)
    merged = Cluster(width, capacity, min(first.created, second.created))
    merged.last_used = max(first.last_used, second.last_used)
    merged.fill(union[:, stay])
    if len(stay) == union.shape[1]:
        return merged, []
    left = np.ones(union.shape[1], dtype=bool)
    left[stay] = False
    return merged, whole[SLOT, left].tolist()
