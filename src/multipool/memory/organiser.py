"""The decisions of the multi-cluster memory, on the host, one sample after another."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from multipool.memory.arrivals import Arrivals
from multipool.memory.cluster import DOUBT, INDEX, LABEL, SERIAL, SLOT, UNCERTAINTY, Cluster, merge
from multipool.memory.consolidations import CONSOLIDATIONS
from multipool.memory.covariance import Covariance
from multipool.memory.distances import DISTANCES, Array
from multipool.memory.events import new_events
from multipool.memory.options import MultiClusterOptions
from multipool.memory.replacements import REPLACEMENTS, always, highest, timeliness
from multipool.memory.spawns import SPAWNS
from multipool.memory.view import ClusterView

Whole = NDArray[np.int64]
_ALL = slice(None)
_CLOSE = 1e-9  # far above the rounding of a distance, far below any that matters


@dataclass(frozen=True)
class Listing:
    """Members with what is handed out about them, one entry each ``(M,)``."""

    serial: Whole
    index: Whole
    slot: Whole
    label: Whole
    uncertainty: Array
    owner: Whole  # position of the cluster

    def take(self, rows: Whole) -> Listing:
        """Return the members in these rows, in this order."""
        return Listing(*(getattr(self, field.name)[rows] for field in fields(self)))


class Organiser:
    """Which sample is in which cluster and in which of the K_max N slots.

    It never sees an image. The width D of the descriptors is set by the first batch.
    """

    def __init__(self, options: MultiClusterOptions) -> None:
        self.options = options
        self.events = new_events()
        self._distance = DISTANCES[options.distance]
        self._consolidate = CONSOLIDATIONS[options.consolidation]
        self._spawns = SPAWNS[options.spawn]
        self._replaces = REPLACEMENTS[options.replacement]
        self._threshold = options.tau
        self.clear()

    def __len__(self) -> int:
        return sum(cluster.size for cluster in self.clusters)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers kept about samples, for as many clusters as there are now."""
        members = sum(c.real.nbytes + c.whole.nbytes + c.total.nbytes for c in self.clusters)
        return members + sum(c.centre.nbytes for c in self.clusters)

    def clear(self) -> None:
        """Forget all samples and start counting again; ``events`` go on."""
        self.clusters: list[Cluster] = []
        self.free = list(range(self.options.slots))[::-1]
        self.serial = 0  # of the next sample
        self.now = 0  # its index: the serial number, or the number of the call
        self.covariance: Covariance | None = None
        self._precision: Array | None = None
        self._by_age: Array | None = None  # timeliness of every age, while a batch is placed
        self.width: int | None = None

    def widen(self, width: int) -> None:
        """Set D, once."""
        self.width = width
        if self.options.distance == "mahalanobis":
            self.covariance = Covariance(width)

    def check_width(self, features: Tensor | None) -> None:
        """Raise ``ValueError`` for features of another width than those before."""
        if features is not None and self.width not in (None, features.shape[1]):
            raise ValueError(
                f"features must have {self.width} columns as those before, got {features.shape[1]}"
            )

    def place(self, arrivals: Arrivals) -> dict[int, int]:
        """Take in a batch; return slot -> row for the images to be written."""
        size = len(arrivals.labels)
        if self.width is None:
            self.widen(arrivals.descriptors.shape[1])
        real = self.rows(arrivals.descriptors, arrivals.uncertainty)
        whole = np.empty((size, 4), dtype=np.int64)
        by_call = self.options.age_unit == "step"
        whole[:, SERIAL] = np.arange(self.serial, self.serial + size)
        whole[:, INDEX] = self.now if by_call else whole[:, SERIAL]
        whole[:, LABEL] = arrivals.labels
        written = {}
        for row, point in enumerate(arrivals.descriptors.tolist()):
            slot = self._take(point, real[row], whole[row])
            if slot is not None:
                written[slot] = row
        self._by_age = None
        self.serial += size
        self.now += 1 if by_call else size
        self.events["added"] += size
        return written

    def listing(self) -> Listing:
        """Return all members, cluster by cluster in order of creation, then by arrival."""
        if not self.clusters:
            none = np.empty(0, dtype=np.int64)
            return Listing(none, none, none, none, np.empty(0), none)
        orders = [(cluster, cluster.order()) for cluster in self.clusters]
        whole = np.concatenate([c.whole[:, order] for c, order in orders], axis=1)
        doubts = np.concatenate([c.real[UNCERTAINTY, order] for c, order in orders])
        owner = np.repeat(np.arange(len(self.clusters)), [c.size for c in self.clusters])
        return Listing(whole[SERIAL], whole[INDEX], whole[SLOT], whole[LABEL], doubts, owner)

    def view(self) -> ClusterView:
        """Return what strategies may look at."""
        used = np.array([(c.size, c.created, c.last_used) for c in self.clusters], dtype=np.int64)
        sizes, created, last_used = used.reshape(-1, 3).T
        return ClusterView(sizes, self._centres(), created, last_used, self.now)

    def adopt(self, clusters: Whole, reals: Array, wholes: Whole) -> None:
        """Take over saved clusters: sizes, created, last_used ``(3, K)``; members' rows in order.

        Members go into slots 0 to M-1 in the order given; ``wholes`` holds serial, index, label.
        """
        capacity, start = self.options.capacity, 0
        for size, created, last_used in clusters.T.tolist():
            cluster = Cluster(reals.shape[1] - 2, capacity, created)
            cluster.last_used = last_used
            part = slice(start, start + size)
            slots = np.arange(start, start + size)
            serial, index, label = wholes[part].T
            cluster.fill(reals[part].T, np.stack((serial, index, slots, label)))
            self.clusters.append(cluster)
            start += size
        self.free = list(range(start, self.options.slots))[::-1]

    def rows(self, descriptors: Array, uncertainty: Array) -> Array:
        """Return ``(B, D+2)``: descriptor, uncertainty and the uncertainty term of H(x)."""
        doubt = self.options.uncertainty_weight * uncertainty / math.log(self.options.num_classes)
        return np.column_stack((descriptors, uncertainty, doubt))

    def _take(self, point: list[float], real: Array, whole: Whole) -> int | None:
        """Take in one sample; return its slot, or ``None`` if it was turned away."""
        now, descriptor = int(whole[INDEX]), real[:-2]
        if self.options.expire_after is not None:
            self._expire(now - self.options.expire_after)
        if self.covariance is not None:
            self._precision = self.covariance.precision()
            self.covariance.add(descriptor)
        if not self.clusters:
            return self._open(real, whole, now)
        nearest, gap = self._nearest(point, descriptor)
        if gap > self._threshold and self._make_room(gap):
            return self._open(real, whole, now)
        return self._assign(nearest, gap, real, whole, now)

    def _nearest(self, point: list[float], descriptor: Array) -> tuple[int, float]:
        """Return the nearest cluster and its distance, exact when it is beyond the threshold."""
        if self.options.distance == "l2":
            gaps = [math.dist(cluster.spot, point) for cluster in self.clusters]
            gap = min(gaps)
            # math.dist is the fastest and rounds in its own way; it decides what is not close.
            limit = gap + _CLOSE * (1 + gap)
            nearest = gaps.index(gap)
            gaps[nearest] = math.inf
            if limit < self._threshold and min(gaps) > limit:
                return nearest, gap
        exact = self._gaps(self._centres(), descriptor)
        nearest = int(exact.argmin())
        return nearest, float(exact[nearest])

    def _centres(self) -> Array:
        """Return the centroids ``(K, D)``."""
        spots = np.array([cluster.spot for cluster in self.clusters])
        return spots.reshape(len(self.clusters), self.width or 0)

    def _gaps(self, points: Array, point: Array) -> Array:
        return self._distance(points, point, self._precision)

    def _open(self, real: Array, whole: Whole, now: int) -> int:
        cluster = Cluster(len(real) - 2, self.options.capacity, now)
        whole[SLOT] = slot = self.free.pop()
        cluster.append(real, whole)
        self.clusters.append(cluster)
        self.events["spawned"] += 1
        return slot

    def _make_room(self, gap: float) -> bool:
        """Return whether a cluster can be opened, after merging two if all are taken."""
        if len(self.clusters) < self.options.clusters:
            return True
        if len(self.clusters) == 1:
            return False
        view = self.view()
        pair = self._consolidate(view, self._gaps)
        if pair is None:
            return False
        i, j = pair
        apart = float(self._gaps(view.centroids[j : j + 1], view.centroids[i])[0])
        if not self._spawns(gap, apart):
            return False
        self.clusters[i], freed = merge(
            self.clusters[i], self.clusters.pop(j), self.options.class_quota
        )
        self.free += freed
        self.events["merged"] += 1
        return True

    def _assign(self, position: int, gap: float, real: Array, whole: Whole, now: int) -> int | None:
        """Put a sample into a cluster, in another's place where there is no room."""
        cluster = self.clusters[position]
        cluster.last_used = now
        rivals = self._rivals(cluster, whole)
        if rivals is None:
            whole[SLOT] = slot = self.free.pop()
            cluster.append(real, whole)
        else:
            leaving, worst = self._worst(cluster, rivals, now)
            if not self._gives_way(worst, real, gap, cluster):
                self.events["rejected"] += 1
                return None
            whole[SLOT] = slot = int(cluster.whole[SLOT, leaving])
            cluster.replace(leaving, real, whole)
            self.events["replaced"] += 1
        return slot

    def _gives_way(self, worst: float, real: Array, gap: float, cluster: Cluster) -> bool:
        """Return whether a member of score ``worst`` leaves for a newcomer, whose age is 0."""
        if self._replaces is always:
            return True
        known, weight = (
            self.options.age_weight / 2 + float(real[DOUBT]),
            self.options.distance_weight,
        )
        newcomer = known + weight * gap
        if abs(worst - newcomer) < _CLOSE:  # too close for the rounding of math.dist
            newcomer = known + weight * float(self._gaps(cluster.centre[None], real[:-2])[0])
        return self._replaces(worst, newcomer)

    def _rivals(self, cluster: Cluster, whole: Whole) -> slice | Whole | None:
        """Return the members of whom one must go, or ``None`` if there is room."""
        quota = self.options.class_quota
        if quota is not None and whole[LABEL] >= 0:
            alike = np.flatnonzero(cluster.whole[LABEL, : cluster.size] == whole[LABEL])
            if len(alike) >= quota:
                return alike
        return _ALL if cluster.size == self.options.capacity else None

    def _worst(self, cluster: Cluster, rivals: slice | Whole, now: int) -> tuple[int, float]:
        """Return position and score of the rival with the highest H(x) (Eq. 5)."""
        if self._by_age is None:  # from A = 37 N on, 1 + exp(-A / N) is 1
            ages = np.arange(37 * self.options.capacity + 1)
            self._by_age = timeliness(ages, self.options.capacity, self.options.age_weight)
        # H(x) = timeliness + doubt + distance, added in this order.
        scores = self._by_age.take(now - cluster.ages_from[rivals], mode="clip")
        scores += cluster.doubt[rivals]
        gaps = self._gaps(cluster.points[rivals], cluster.centre)
        if self.options.distance_weight != 1:
            gaps *= self.options.distance_weight
        scores += gaps
        chosen = highest(scores, cluster.whole[SERIAL, rivals])
        position = chosen if isinstance(rivals, slice) else int(rivals[chosen])
        return position, float(scores[chosen])

    def _expire(self, before: int) -> None:
        """Drop the clusters last used before the index ``before``."""
        stale = [k for k, cluster in enumerate(self.clusters) if cluster.last_used < before]
        for position in reversed(stale):
            cluster = self.clusters.pop(position)
            self.free += cluster.whole[SLOT, : cluster.size].tolist()
        self.events["expired"] += len(stale)
