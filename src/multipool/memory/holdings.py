"""What is known about the samples of a multi-cluster memory: a few numbers each, in plain arrays.

The rules change these arrays, be they written in numpy (``organiser.py``) or in C (``clusters.c``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from multipool.memory.distances import Array, Whole
from multipool.memory.view import ClusterView, MemberView


class Sample(NamedTuple):
    """One sample on its way into the memory."""

    point: Array  # (D,) its descriptor
    uncertainty: float
    label: int
    doubtful: int  # 1: its label is in doubt, so it pushes nobody out
    serial: int
    moment: int  # its index: the serial number, or the number of the call


class Holdings:
    """Which sample is in which cluster, and in which of the S = K_max N slots for images.

    A sample's numbers are in the entries of its slot. Clusters are in order of creation: of the
    K_max rows the first ``count[0]`` are in use, and of the slots in row k of ``members`` the first
    ``sizes[k]``, in any order.
    """

    def __init__(self, clusters: int, capacity: int, width: int) -> None:
        slots = clusters * capacity
        self.points = np.zeros((slots, width))
        self.uncertainty = np.zeros(slots)
        self.serials, self.indices, self.labels = np.zeros((3, slots), dtype=np.int64)
        self.count = np.zeros(1, dtype=np.int64)
        self.sizes, self.created, self.last_used = np.zeros((3, clusters), dtype=np.int64)
        self.members = np.zeros((clusters, capacity), dtype=np.int64)
        self.totals = np.zeros((clusters, width))  # sums of the descriptors, exact in any order

    @property
    def width(self) -> int:
        """D, the numbers of a descriptor."""
        return self.points.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in vars(self).values())

    def __len__(self) -> int:
        """Return the number of clusters."""
        return int(self.count[0])

    def slots_of(self, cluster: int) -> Whole:
        """Return the slots of a cluster's members, in any order."""
        return self.members[cluster, : self.sizes[cluster]]

    def centroids(self) -> Array:
        """Return the mean descriptors ``(K, D)``."""
        used = len(self)
        return self.totals[:used] / self.sizes[:used, None]

    def listed(self) -> tuple[Whole, Whole]:
        """Return slots and clusters of all members: cluster by cluster, and by arrival."""
        sizes = self.sizes[: len(self)]
        places = np.arange(self.members.shape[1], dtype=np.int64)
        slots = self.members[: len(self)][places < sizes[:, None]]
        owner = np.arange(len(self), dtype=np.int64).repeat(sizes)
        order = np.lexsort((self.serials[slots], owner))
        return slots[order], owner

    def free(self) -> list[int]:
        """Return the slots that no member has, the lowest last."""
        used = np.zeros(len(self.uncertainty), dtype=bool)
        used[self.listed()[0]] = True
        return np.flatnonzero(~used)[::-1].tolist()

    def view(self, now: int) -> ClusterView:
        """Return what strategies may look at: copies that cannot be written to."""
        slots, owner = self.listed()
        members = MemberView(
            owner=owner,
            serials=self.serials[slots],
            ages=now - self.indices[slots],
            uncertainty=self.uncertainty[slots],
            labels=self.labels[slots],
            slots=slots,
        )
        used = slice(len(self))
        clusters = ClusterView(
            sizes=self.sizes[used].copy(),
            centroids=self.centroids(),
            created=self.created[used].copy(),
            last_used=self.last_used[used].copy(),
            members=members,
        )
        for array in (*vars(members).values(), *vars(clusters).values()):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        return clusters

    def open(self, moment: int) -> int:
        """Add an empty cluster; return its position."""
        cluster = len(self)
        self.count += 1
        self.sizes[cluster], self.totals[cluster] = 0, 0.0
        self.created[cluster] = self.last_used[cluster] = moment
        return cluster

    def append(self, cluster: int, sample: Sample, slot: int) -> None:
        """Add a member, whose image goes into a free slot."""
        self.members[cluster, self.sizes[cluster]] = slot
        self.sizes[cluster] += 1
        self._put(cluster, sample, slot)

    def replace(self, cluster: int, sample: Sample, slot: int) -> None:
        """Put a newcomer in the place and slot of a member."""
        self.totals[cluster] -= self.points[slot]
        self._put(cluster, sample, slot)

    def _put(self, cluster: int, sample: Sample, slot: int) -> None:
        self.points[slot], self.uncertainty[slot] = sample.point, sample.uncertainty
        self.serials[slot], self.indices[slot] = sample.serial, sample.moment
        self.labels[slot] = sample.label
        self.totals[cluster] += sample.point

    def merge(self, first: int, second: int, stay: Whole) -> None:
        """Merge two clusters at the earlier place; of their members those in ``stay`` are left."""
        self.members[first, : len(stay)] = stay
        self.sizes[first], self.totals[first] = len(stay), self.points[stay].sum(axis=0)
        self.created[first] = self.created[[first, second]].min()
        self.last_used[first] = self.last_used[[first, second]].max()
        for array in (self.sizes, self.created, self.last_used, self.members, self.totals):
            array[second : len(self) - 1] = array[second + 1 : len(self)]
        self.count -= 1
