"""The decisions of the multi-cluster memory: its definition, one sample after another.

``clusters.c`` makes the same decisions faster where :class:`Compiled` covers the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from math import log
from typing import TypeVar

import numpy as np

from multipool.memory.arrivals import Arrivals
from multipool.memory.consolidations import CONSOLIDATIONS, SPAWNS, keep
from multipool.memory.distances import DISTANCES, Array, Covariance, Whole
from multipool.memory.holdings import Holdings, Sample
from multipool.memory.options import MultiClusterOptions
from multipool.memory.protocol import new_events
from multipool.memory.replacements import REPLACEMENTS, highest, timeliness_by_age
from multipool.memory.runs import Run
from multipool.memory.view import ClusterView

Rows = Sequence[int] | Whole
_Terms = TypeVar("_Terms", float, Array)  # of one sample, or of many


class Organiser:
    """Decides which sample goes into which cluster and slot, and which one makes room.

    It never sees an image. The width D of the descriptors is set by the first batch.
    """

    def __init__(self, options: MultiClusterOptions) -> None:
        self.options = options
        self.events = new_events()
        self.clear()

    def clear(self) -> None:
        """Forget all samples and start counting again; ``events`` go on."""
        self.serial = 0  # of the next sample
        self.now = 0  # its index: the serial number, or the number of the call
        share = self.options.run_share
        self.run = None if share is None else Run(self.options.capacity, share)
        self.widen(0)

    def widen(self, width: int) -> None:
        """Make room for samples with descriptors of ``width`` numbers, 0: not known yet."""
        self.holdings = Holdings(self.options.clusters, self.options.capacity, width)
        self.covariance = Covariance(width) if self.options.distance == "mahalanobis" else None
        self._precision: Array | None = None

    def __len__(self) -> int:
        return int(self.holdings.sizes[: len(self.holdings)].sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers kept about samples."""
        return self.holdings.nbytes + (self.run.nbytes if self.run else 0)

    def view(self) -> ClusterView:
        """Return what strategies may look at."""
        return self.holdings.view(self.now)

    def place(self, arrivals: Arrivals) -> tuple[Rows, Rows]:
        """Take in a batch; return slots and rows of the images to be written there."""
        if not self.holdings.width:
            self.widen(arrivals.descriptors.shape[1])
        slots, rows = self._decide(arrivals)
        size = len(arrivals.labels)
        self.serial += size
        self.now += 1 if self.options.age_unit == "step" else size
        self.events["added"] += size
        return slots, rows

    def _decide(self, arrivals: Arrivals) -> tuple[Rows, Rows]:
        self._free = self.holdings.free()
        self._timely = timeliness_by_age(self.options.capacity, self.options.age_weight)
        written = {}
        for row, sample in enumerate(self._samples(arrivals)):
            slot = self._take(sample)
            if slot is not None:
                written[slot] = row
        del self._free, self._timely  # shared, or quickly made again
        return list(written), list(written.values())

    def _samples(self, arrivals: Arrivals) -> Iterator[Sample]:
        by_call = self.options.age_unit == "step"
        columns = (arrivals.uncertainty, arrivals.labels, self.doubtful(arrivals))
        numbers = (column.tolist() for column in columns)
        moments = repeat(self.now) if by_call else count(self.now)
        return map(Sample, arrivals.descriptors, *numbers, count(self.serial), moments)

    def doubtful(self, arrivals: Arrivals) -> Whole:
        """Return 1 where a sample may push nobody out, else 0, ``(B,)``; once for each batch."""
        if self.run is None:
            return np.zeros(len(arrivals.labels), dtype=np.int64)
        return self.run.doubtful(arrivals.labels, arrivals.uncertainty)

    def _take(self, sample: Sample) -> int | None:
        """Take in one sample; return its slot, or ``None`` if it was turned away."""
        if self.covariance is not None:
            self._precision = self.covariance.precision()
            self.covariance.add(sample.point)
        held = self.holdings
        if not len(held):
            return self._open(sample)
        centroids = held.centroids()
        gaps = self._gaps(centroids, sample.point)  # (K,)
        nearest = int(gaps.argmin())
        gap = float(gaps[nearest])
        if gap > self.options.tau and self._make_room(gap, sample.moment):
            return self._open(sample)
        held.last_used[nearest] = sample.moment
        return self._assign(nearest, centroids[nearest], gap, sample)

    def _open(self, sample: Sample) -> int:
        self.events["spawned"] += 1
        return self._append(self.holdings.open(sample.moment), sample)

    def _append(self, cluster: int, sample: Sample) -> int:
        slot = self._free.pop()
        self.holdings.append(cluster, sample, slot)
        return slot

    def _assign(self, cluster: int, centroid: Array, gap: float, sample: Sample) -> int | None:
        """Put a sample, ``gap`` away from the centroid, into a cluster; a member may make room."""
        rivals = self._rivals(cluster, sample.label)
        if not len(rivals):
            return self._append(cluster, sample)
        held = self.holdings
        far: Array | float = 0.0  # what weighs nothing is not measured
        if self.options.distance_weight:
            far = self._gaps(held.points.take(rivals, axis=0), centroid)
        timely = self._timely.take(sample.moment - held.indices[rivals], mode="clip")
        scores = self._scores(timely, held.uncertainty[rivals], far)
        worst = highest(scores, held.serials, rivals)
        newcomer = self._scores(float(self._timely[0]), sample.uncertainty, gap)
        replaces = REPLACEMENTS[self.options.replacement]
        if sample.doubtful or not replaces(scores[worst], newcomer):
            self.events["rejected"] += 1
            return None
        slot = int(rivals[worst])
        held.replace(cluster, sample, slot)
        self.events["replaced"] += 1
        return slot

    def _rivals(self, cluster: int, label: int) -> Whole:
        """Return the slots of those of whom one must go for a newcomer; none if there is room."""
        slots, quota = self.holdings.slots_of(cluster), self.options.class_quota
        if quota is not None and label >= 0:
            alike = slots[self.holdings.labels[slots] == label]
            if len(alike) >= quota:
                return alike
        return slots if len(slots) == self.options.capacity else slots[:0]

    def _scores(self, timely: _Terms, uncertainty: _Terms, gaps: _Terms | float) -> _Terms:
        """Return H(x) (Eq. 5): timeliness, doubt and distance, added in this order."""
        doubt = self.options.uncertainty_weight * uncertainty / log(self.options.num_classes)
        return timely + doubt + self.options.distance_weight * gaps

    def _gaps(self, points: Array, point: Array) -> Array:
        return DISTANCES[self.options.distance](points, point, self._precision)

    def _make_room(self, gap: float, now: int) -> bool:
        """Return whether a cluster can be opened, after merging two if all are taken."""
        held = self.holdings
        if len(held) < self.options.clusters:
            return True
        if len(held) == 1:
            return False
        view = held.view(now)
        pair = CONSOLIDATIONS[self.options.consolidation](view, self._gaps)
        if pair is None:
            return False
        i, j = pair
        apart = float(self._gaps(view.centroids[j : j + 1], view.centroids[i])[0])
        if not SPAWNS[self.options.spawn](gap, apart):
            return False
        self._merge(i, j)
        return True

    def _merge(self, i: int, j: int) -> None:
        held = self.holdings
        union = np.concatenate((held.slots_of(i), held.slots_of(j)))
        columns = (held.uncertainty[union], held.serials[union], held.labels[union])
        stay = union[keep(*columns, self.options.capacity, self.options.class_quota)]
        self._free += sorted(set(union.tolist()) - set(stay.tolist()), reverse=True)
        held.merge(i, j, stay)
        self.events["merged"] += 1
