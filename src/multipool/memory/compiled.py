"""The organiser whose decisions are made by compiled code, where it was built and covers them."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from multipool.memory import switch
from multipool.memory.arrivals import Arrivals
from multipool.memory.distances import Array, Whole
from multipool.memory.ledger import Ledger
from multipool.memory.options import MultiClusterOptions
from multipool.memory.organiser import Organiser
from multipool.memory.replacements import timeliness_by_age

# As in decide.h: the array of counts, and the table of clusters.
_CLUSTERS, *_EVENTS = range(5)
_NAMES = ("spawned", "merged", "replaced", "rejected")
_SIZE, _CREATED, _LAST_USED = range(3)
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


@dataclass(frozen=True)
class Members:
    """What is known about the samples, by slot of their image, S = K_max N."""

    points: Array  # (S, D)
    uncertainty: Array  # (S,)
    serials: Whole  # (S,)
    indices: Whole  # (S,)
    labels: Whole  # (S,)

    @classmethod
    def room(cls, slots: int, width: int) -> Members:
        """Return arrays for so many samples."""
        whole = (np.zeros(slots, dtype=np.int64) for _ in range(3))
        return cls(np.zeros((slots, width)), np.zeros(slots), *whole)

    def arrays(self) -> tuple[Array, Array, Whole, Whole, Whole]:
        """Return all of them in the order of ``decide.c``."""
        return self.points, self.uncertainty, self.serials, self.indices, self.labels


class Compiled(Ledger):
    """Plain arrays for K_max clusters, which ``clusters.c`` reads and changes in place."""

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
        clusters, capacity = self.options.clusters, self.options.capacity
        self._members: Members | None = None
        self._totals = np.zeros((clusters, 0))
        self._slots = np.zeros((clusters, capacity), dtype=np.int64)
        self._table = np.zeros((clusters, 3), dtype=np.int64)
        self._counts = np.zeros(5, dtype=np.int64)

    def widen(self, width: int) -> None:
        """Set D, once, and make room for all members."""
        super().widen(width)
        self._members = Members.room(self.options.slots, width)
        self._totals = np.zeros((self.options.clusters, width))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = self._members.arrays() if self._members else ()
        rest = (self._totals, self._slots, self._table, self._counts)
        return sum(array.nbytes for array in (*arrays, *rest))

    def __len__(self) -> int:
        return int(self._used()[:, _SIZE].sum())

    def parts(self) -> list[Part]:
        """Return the members of each cluster, in order of creation."""
        if self._members is None:
            return []
        found = []
        for position, (size, created, last_used) in enumerate(self._used().tolist()):
            slots = self._slots[position, :size]
            held = self._members
            real = self.reals(held.points[slots], held.uncertainty[slots])
            whole = np.stack((held.serials[slots], held.indices[slots], slots, held.labels[slots]))
            centre = self._totals[position] / size
            found.append(Part(real, whole, size, created, last_used, centre))
        return found

    def place(self, arrivals: Arrivals) -> tuple[Whole, Whole]:
        """Take in a batch; return slots and rows of the images to be written there."""
        size = len(arrivals.labels)
        if self._members is None:
            self.widen(arrivals.descriptors.shape[1])
        written = np.empty((2, size), dtype=np.int64)
        number = switch.decide.take(
            self._options,
            self.width,
            self._timeliness(),
            *self._members.arrays(),  # type: ignore[union-attr]
            self._table,
            self._slots,
            self._totals,
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
        if self._members is None:
            self.widen(len(reals) - 2)
        held = len(wholes)
        saved = (reals[:-2].T, reals[-2], *wholes.T)
        for array, values in zip(self._members.arrays(), saved, strict=True):  # type: ignore[union-attr]
            array[:held] = values
        start = 0
        for position, size in enumerate(clusters[_SIZE].tolist()):
            part = slice(start, start + size)
            self._slots[position, :size] = np.arange(start, start + size, dtype=np.int64)
            self._totals[position] = reals[:-2, part].sum(axis=1)
            start += size
        self._table[: clusters.shape[1]] = clusters.T
        self._counts[_CLUSTERS] = clusters.shape[1]

    def _used(self) -> Whole:
        return self._table[: self._counts[_CLUSTERS]]

    def _timeliness(self) -> Array:
        """Return the age term of H(x) by age; made anew, as it is larger than what it is for."""
        if self._ageless:
            return np.zeros(1)
        return timeliness_by_age(self.options.capacity, self.options.age_weight)
