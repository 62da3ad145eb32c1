"""The decisions of the multi-cluster memory, on the host, one sample after another."""

from __future__ import annotations

from math import dist, inf

import numpy as np

from multipool.memory.arrivals import Arrivals
from multipool.memory.cluster import INDEX, LABEL, SERIAL, SLOT, Cluster, merge, pack
from multipool.memory.consolidations import CONSOLIDATIONS
from multipool.memory.distances import DISTANCES, Array, Whole, l2
from multipool.memory.ledger import Ledger
from multipool.memory.options import MultiClusterOptions
from multipool.memory.scores import CLOSE, Scores
from multipool.memory.spawns import SPAWNS, always

Point = tuple[float, ...]


class Organiser(Ledger):
    """Decides by the strategies' own functions, whichever are chosen; see :class:`Compiled`."""

    def __init__(self, options: MultiClusterOptions) -> None:
        super().__init__(options)
        self._distance = DISTANCES[options.distance]
        self._consolidate = CONSOLIDATIONS[options.consolidation]
        self._spawns = SPAWNS[options.spawn]
        # Read once: a property or a longer way to them would take its time for every sample.
        self._threshold, self._capacity = options.tau, options.capacity
        self._expire_after, self._quota = options.expire_after, options.class_quota
        self._scores = Scores(options, self._gaps)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers kept about samples, for as many clusters as there are now."""
        return sum(cluster.nbytes for cluster in self.clusters)

    def clear(self) -> None:
        """Forget all samples and start counting again; ``events`` go on."""
        super().clear()
        self.clusters: list[Cluster] = []
        self.free = list(range(self.options.slots))[::-1]
        self._precision: Array | None = None

    def parts(self) -> list[Cluster]:
        """Return the clusters, in order of creation."""
        return self.clusters

    def place(self, arrivals: Arrivals) -> tuple[list[int], list[int]]:
        """Take in a batch; return slots and rows of the images to be written there."""
        size = len(arrivals.labels)
        if self.width is None:
            self.widen(arrivals.descriptors.shape[1])
        whole = np.zeros((4, size), dtype=np.int64)
        whole[SERIAL] = np.arange(self.serial, self.serial + size, dtype=np.int64)
        whole[INDEX] = self.now if self.options.age_unit == "step" else whole[SERIAL]
        whole[LABEL] = arrivals.labels
        members = pack(self.reals(arrivals.descriptors, arrivals.uncertainty), whole)
        samples = zip(
            map(tuple, arrivals.descriptors.tolist()),
            np.ascontiguousarray(members.T),
            arrivals.labels.tolist(),
            whole[INDEX].tolist(),
            self.doubtful(arrivals).tolist(),
            strict=True,
        )
        written = {}
        for row, sample in enumerate(samples):
            slot = self._take(*sample)
            if slot is not None:
                written[slot] = row
        self._scores.forget()
        self.count(size)
        return list(written), list(written.values())

    def adopt(self, clusters: Whole, reals: Array, wholes: Whole) -> None:
        """Take over saved clusters; see :meth:`Ledger.adopt`."""
        capacity, start = self.options.capacity, 0
        for size, created, last_used in clusters.T.tolist():
            cluster = Cluster(len(reals) - 2, capacity, created)
            cluster.last_used = last_used
            part = slice(start, start + size)
            slots = np.arange(start, start + size, dtype=np.int64)
            serial, index, label = wholes[part].T
            cluster.fill(pack(reals[:, part], np.stack((serial, index, slots, label))))
            self.clusters.append(cluster)
            start += size
        self.free = list(range(start, self.options.slots))[::-1]

    def _take(self, point: Point, member: Array, label: int, now: int, doubtful: int) -> int | None:
        """Take in one sample; return its slot, or ``None`` if it was turned away."""
        if self._expire_after is not None:
            self._expire(now - self._expire_after)
        if self.covariance is not None:
            self._precision = self.covariance.precision()
            self.covariance.add(member[:-6])
        if not self.clusters:
            return self._open(member, now)
        nearest, gap = self._nearest(point, member)
        if gap > self._threshold and self._make_room(gap):
            return self._open(member, now)
        cluster = self.clusters[nearest]
        cluster.last_used = now
        leaving = self._leaving(cluster, label, now)
        if leaving is None:
            slot = self.free.pop()
            cluster.append(member, slot)
            return slot
        if doubtful or not self._scores.gives_way(cluster, leaving, member, gap, now):
            self.events["rejected"] += 1
            return None
        slot = cluster.replace(leaving, member)
        self._scores.keep(cluster, leaving, point)
        self.events["replaced"] += 1
        return slot

    def _nearest(self, point: Point, member: Array) -> tuple[int, float]:
        """Return the nearest cluster and its distance, exact where its last digits may matter."""
        if self._distance is l2:
            nearest, gap, second = 0, inf, inf
            for position, cluster in enumerate(self.clusters):
                found = dist(cluster.spot, point)
                if found < gap:
                    nearest, gap, second = position, found, gap
                elif found < second:
                    second = found
            # math.dist is the fastest and rounds in its own way; it decides what is not close.
            close = CLOSE * (1 + gap)
            near = gap + close < self._threshold
            far = gap - close > self._threshold and self._spawns is always
            if (near or far) and second > gap + close:
                return nearest, gap
        exact = self._gaps(self._centres(), member[:-6])
        nearest = int(exact.argmin())
        return nearest, float(exact[nearest])

    def _centres(self) -> Array:
        """Return the centroids ``(K, D)``."""
        spots = np.array([cluster.spot for cluster in self.clusters])
        return spots.reshape(len(self.clusters), self.width or 0)

    def _gaps(self, points: Array, point: Array) -> Array:
        return self._distance(points, point, self._precision)

    def _open(self, member: Array, now: int) -> int:
        cluster, slot = Cluster(len(member) - 6, self.options.capacity, now), self.free.pop()
        cluster.append(member, slot)
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
        if self._spawns is not always:
            apart = float(self._gaps(view.centroids[j : j + 1], view.centroids[i])[0])
            if not self._spawns(gap, apart):
                return False
        self.clusters[i], freed = merge(self.clusters[i], self.clusters.pop(j), self._quota)
        self.free += freed
        self.events["merged"] += 1
        return True

    def _leaving(self, cluster: Cluster, label: int, now: int) -> int | None:
        """Return the member that must go for a newcomer, or ``None`` if there is room."""
        if self._quota is not None and label >= 0:
            alike = cluster.whole[LABEL, : cluster.size] == label
            if np.count_nonzero(alike) >= self._quota:
                return self._scores.worst_of(cluster, alike.nonzero()[0], now)
        return self._scores.worst(cluster, now) if cluster.size == self._capacity else None

    def _expire(self, before: int) -> None:
        """Drop the clusters last used before the index ``before``."""
        stale = [k for k, cluster in enumerate(self.clusters) if cluster.last_used < before]
        for position in reversed(stale):
            cluster = self.clusters.pop(position)
            self.free += cluster.whole[SLOT, : cluster.size].tolist()
        self.events["expired"] += len(stale)
