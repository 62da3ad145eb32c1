"""The organiser whose decisions are made by compiled code, where it was built and covers them."""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from multipool.memory import switch
from multipool.memory.arrivals import Arrivals
from multipool.memory.cluster import SLOT
from multipool.memory.distances import Array, Whole
from multipool.memory.ledger import Ledger
from multipool.memory.options import MultiClusterOptions
from multipool.memory.organiser import Organiser
from multipool.memory.replacements import timeliness_by_age
from multipool.memory.view import ClusterView

# As in decide.h: the array of counts, and the table of clusters.
_CLUSTERS, _FREE, *_EVENTS = range(6)
_NAMES = ("spawned", "merged", "replaced", "rejected")
_SIZE, _CREATED, _LAST_USED, _BLOCK = range(4)
# clusters.c is for sums that are exact in any order, so not for features of any magnitude.
_BOUNDED = ("pixel", "spatial_mean", "histogram")


def organise(options: MultiClusterOptions) -> Ledger:
    """Return the fastest organiser for these options; all of them decide alike."""
    if switch.available() and Compiled.covers(options):
        return Compiled(options)
    return Organiser(options)


class Part(NamedTuple):
    """The members of one cluster, as :class:`Cluster` has them."""

    real: Array  # (D+2, N)
    whole: Whole  # (4, N)
    size: int
    created: int
    last_used: int
    centre: Array  # (D,)


class Compiled(Ledger):
    """Plain arrays for K_max clusters, which ``clusters.c`` reads and changes in place.

    A cluster's members are in one of K_max blocks; the table of clusters says in which.
    """

    @staticmethod
    def covers(options: MultiClusterOptions) -> bool:
        """Return whether ``clusters.c`` knows the strategies chosen."""
        known = options.distance == "l2" and options.consolidation == "acc"
        return known and options.descriptor in _BOUNDED and options.expire_after is None

    def __init__(self, options: MultiClusterOptions) -> None:
        super().__init__(options)
        self._ageless = options.age_alone and options.replacement == "always"  # needs no timeliness
        self._options = (
            options.capacity,
            options.clusters,
            min(options.class_quota or 0, options.capacity + 1),  # beyond, it never binds
            options.num_classes,
            options.spawn == "gated",
            options.replacement == "if_worse",
            options.age_alone,
            options.tau,
            float(options.uncertainty_weight),
            log(options.num_classes),
            float(options.distance_weight),
        )

    def clear(self) -> None:
        """Forget all samples and start counting again; ``events`` go on."""
        super().clear()
        self._arrays: tuple[Array, Whole, Array] | None = None
        self._table = np.zeros((self.options.clusters, 4), dtype=np.int64)
        self._table[:, _BLOCK] = np.arange(self.options.clusters)
        self._free = np.arange(self.options.slots)[::-1].copy()
        self._counts = np.array([0, self.options.slots, 0, 0, 0, 0])

    def widen(self, width: int) -> None:
        """Set D, once, and make room for all members."""
        super().widen(width)
        clusters, capacity = self.options.clusters, self.options.capacity
        self._arrays = (
            np.zeros((clusters, width + 2, capacity)),  # real
            np.zeros((clusters, 4, capacity), dtype=np.int64),  # whole
            np.zeros((clusters, 2, width)),  # sums of the descriptors, centroids
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (*(self._arrays or ()), self._table, self._free, self._counts)
        return sum(array.nbytes for array in arrays)

    def __len__(self) -> int:
        return int(self._used()[:, _SIZE].sum())

    def parts(self) -> list[Part]:
        """Return the members of each cluster, in order of creation."""
        if self._arrays is None:
            return []
        real, whole, sums = self._arrays
        return [
            Part(real[block], whole[block], size, created, last_used, sums[block, 1])
            for size, created, last_used, block in self._used().tolist()
        ]

    def view(self) -> ClusterView:
        """Return what strategies may look at."""
        if self._arrays is None:
            return super().view()
        sizes, created, last_used, blocks = self._used().T.copy()
        return ClusterView(sizes, self._arrays[2][blocks, 1], created, last_used, self.now)

    def place(self, arrivals: Arrivals) -> tuple[Whole, Whole]:
        """Take in a batch; return slots and rows of the images to be written there."""
        size = len(arrivals.labels)
        if self._arrays is None:
            self.widen(arrivals.descriptors.shape[1])
        written = np.empty((2, size), dtype=np.int64)
        number = switch.decide.clusters(
            self._options,
            self.width,
            self._timeliness(),
            *self._arrays,  # type: ignore[misc]
            self._table,
            self._free,
            self._counts,
            arrivals.descriptors,
            arrivals.uncertainty,
            arrivals.labels,
            self.doubtful(arrivals),
            written,
            self.serial,
            self.now,
            self.options.age_unit == "step",
        )
        self.count(size)
        for name, happened in zip(_NAMES, self._counts[_EVENTS].tolist(), strict=True):
            self.events[name] += happened
        self._counts[_EVENTS] = 0
        slots, rows = written[:, :number]
        return slots, rows

    def adopt(self, clusters: Whole, reals: Array, wholes: Whole) -> None:
        """Take over saved clusters; see :meth:`Ledger.adopt`."""
        if self._arrays is None:
            self.widen(len(reals) - 2)
        real, whole, sums = self._arrays  # type: ignore[misc]
        start = 0
        for block, size in enumerate(clusters[0].tolist()):
            part = slice(start, start + size)
            real[block, :, :size] = reals[:, part]
            whole[block, [0, 1, 3], :size] = wholes[part].T
            whole[block, SLOT, :size] = np.arange(start, start + size)
            sums[block, 0] = reals[:-2, part].sum(axis=1)
            sums[block, 1] = sums[block, 0] / size
            start += size
        self._table[: clusters.shape[1], :_BLOCK] = clusters.T
        self._counts[_CLUSTERS], self._counts[_FREE] = clusters.shape[1], self.options.slots - start

    def _used(self) -> Whole:
        return self._table[: self._counts[_CLUSTERS]]

    def _timeliness(self) -> Array:
        """Return the age term of H(x) by age; made anew, as it is larger than what it is for."""
        if self._ageless:
            return np.zeros(1)
        return timeliness_by_age(self.options.capacity, self.options.age_weight)
