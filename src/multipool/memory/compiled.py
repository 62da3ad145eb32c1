"""The organiser whose decisions are made by compiled code, where it was built and covers them."""

from __future__ import annotations

from math import log

import numpy as np

from multipool.memory import switch
from multipool.memory.arrivals import Arrivals
from multipool.memory.distances import Whole
from multipool.memory.options import MultiClusterOptions
from multipool.memory.organiser import Organiser
from multipool.memory.replacements import timeliness_by_age

_COUNTED = ("spawned", "merged", "replaced", "rejected")  # as in decide.h
# clusters.c is for sums that are exact in any order, so not for features of any magnitude.
_BOUNDED = ("pixel", "spatial_mean", "histogram")


def organise(options: MultiClusterOptions) -> Organiser:
    """Return the fastest organiser for these options; all of them decide alike."""
    known = options.distance == "l2" and options.consolidation == "acc"
    covered = known and options.descriptor in _BOUNDED
    return Compiled(options) if covered and switch.available() else Organiser(options)


class Compiled(Organiser):
    """Lets ``clusters.c`` read the holdings and change them in place."""

    def __init__(self, options: MultiClusterOptions) -> None:
        super().__init__(options)
        # H(x) is age alone: then the oldest has the highest, or one as high and is older.
        age_alone = options.uncertainty_weight == options.distance_weight == 0
        self._ageless = age_alone and options.replacement == "always"  # needs no timeliness
        self._options = (
            options.capacity,
            options.clusters,
            min(options.class_quota or 0, options.capacity + 1),  # beyond, it never binds
            options.num_classes,
            options.spawn == "gated",
            options.replacement == "if_worse",
            age_alone,
            options.tau,
            float(options.uncertainty_weight),
            log(options.num_classes),
            float(options.distance_weight),
        )

    def _decide(self, arrivals: Arrivals) -> tuple[Whole, Whole]:
        o, held = self.options, self.holdings
        timely = np.zeros(1) if self._ageless else timeliness_by_age(o.capacity, o.age_weight)
        counted = np.zeros(len(_COUNTED), dtype=np.int64)
        written = np.empty((2, len(arrivals.labels)), dtype=np.int64)
        number = switch.decide.take(
            self._options, held.width, timely,
            held.points, held.uncertainty, held.serials, held.indices, held.labels,
            held.count, held.sizes, held.created, held.last_used, held.members, held.totals,
            arrivals.descriptors, arrivals.uncertainty, arrivals.labels, self.doubtful(arrivals),
            counted, written, self.serial, self.now, o.age_unit == "step",
        )  # fmt: skip
        for name, happened in zip(_COUNTED, counted.tolist(), strict=True):
            self.events[name] += happened
        slots, rows = written[:, :number]
        return slots, rows
