"""Find who makes room: the member with the highest H(x) (Eq. 5), mostly without all scores."""

from __future__ import annotations

from math import dist, inf

import numpy as np
from numpy.typing import NDArray

from multipool.memory.cluster import DOUBT, SERIAL, Cluster
from multipool.memory.consolidations import Gaps
from multipool.memory.distances import Array
from multipool.memory.options import MultiClusterOptions
from multipool.memory.replacements import REPLACEMENTS, always, highest, timeliness_by_age

Positions = NDArray[np.int64]
Point = tuple[float, ...]
CLOSE = 1e-9  # far above the rounding of a distance, far below any that matters
_ALL = slice(None)
_HUGE = 1e100  # far below where squares overflow, which math.dist avoids and numpy does not
_FEW = 8  # candidates that are weighed one by one in less time than all members at once


class Scores:
    """H(x) = timeliness + doubt + distance_weight times the distance to the centroid.

    Of the three only the distance costs much. So a full cluster keeps, for every member, doubt
    and weighted distance to its *anchor*: the centroid when they were last computed. While the
    centroid is within g of the anchor, each score is within distance_weight g of the one that
    the kept number gives, and only members within twice that of the highest can be the highest.
    They are weighed with ``math.dist``; where its rounding could decide, exactly as all others.
    """

    def __init__(self, options: MultiClusterOptions, gaps: Gaps) -> None:
        self._capacity, self._weight = options.capacity, options.distance_weight
        self._age_weight = options.age_weight
        self._age_alone = options.age_alone
        self._anchors = options.distance == "l2"  # what math.dist computes
        self._replaces = REPLACEMENTS[options.replacement]
        self._gaps = gaps
        self.forget()

    def forget(self) -> None:
        """Drop the table of timeliness by age, which is as large as it is quickly made."""
        self._by_age: Array | None = None

    def worst(self, cluster: Cluster, now: int) -> int:
        """Return the position of the highest H(x) in a full cluster, of equals the older."""
        if self._age_alone:
            return int(cluster.whole[SERIAL].argmin())
        anchor = cluster.anchor
        if anchor is None:
            return self._anchor(cluster, now)
        scores = self._timeliness(now - cluster.ages_from)
        scores += cluster.kept
        top = int(scores.argmax())
        score = float(scores[top])
        limit = score - 2 * self._weight * dist(cluster.spot, anchor) - cluster.rounding
        near = [(top, score)]
        while len(near) <= _FEW:
            scores[top] = -inf
            top = int(scores.argmax())
            score = float(scores[top])
            if score < limit:
                return near[0][0] if len(near) == 1 else self._highest(cluster, anchor, near, now)
            near.append((top, score))
        return self._anchor(cluster, now)

    def worst_of(self, cluster: Cluster, rivals: Positions, now: int) -> int:
        """Return the position of the highest H(x) among ``rivals``, of equals the older."""
        if self._age_alone:
            return int(rivals[cluster.whole[SERIAL, rivals].argmin()])
        return self.exact(cluster, rivals, now)[0]

    def _highest(
        self, cluster: Cluster, anchor: Point, near: list[tuple[int, float]], now: int
    ) -> int:
        """Return the position of the highest of few, given with their scores from the anchor."""
        about = []
        for position, score in near:
            point = cluster.points[position].tolist()
            gained = dist(point, cluster.spot) - dist(point, anchor)
            about.append((score + self._weight * gained, position))
        about.sort()
        if about[-1][0] - about[-2][0] > cluster.rounding:
            return about[-1][1]
        return self.exact(
            cluster, np.array([position for position, _ in near], dtype=np.int64), now
        )[0]

    def gives_way(
        self, cluster: Cluster, leaving: int, newcomer: Array, gap: float, now: int
    ) -> bool:
        """Return whether a member leaves for a packed newcomer of age 0, ``gap`` away or nearly."""
        if self._replaces is always:
            return True
        doubt = float(newcomer[:-4][DOUBT])
        known, far = self._age_weight / 2 + doubt, self._weight * gap
        if cluster.anchor is not None:
            worst = self._about(cluster, leaving, now)
            if abs(worst - known - far) > cluster.rounding + CLOSE * (abs(doubt) + far):
                return self._replaces(worst, known + far)
        _, worst = self.exact(cluster, np.array([leaving], dtype=np.int64), now)
        far = self._weight * float(self._gaps(cluster.centre[None], newcomer[:-6])[0])
        return self._replaces(worst, known + far)

    def exact(self, cluster: Cluster, rivals: Positions, now: int) -> tuple[int, float]:
        """Return position and score of the rival with the highest H(x), of equals the older."""
        scores, _ = self._exact(cluster, rivals, now)
        chosen = highest(scores, cluster.whole[SERIAL, rivals])
        return int(rivals[chosen]), float(scores[chosen])

    def _about(self, cluster: Cluster, position: int, now: int) -> float:
        """Return one member's H(x) but for rounding, in a cluster that has an anchor."""
        timely = float(self._timeliness(now - cluster.ages_from[position]))
        gap = dist(cluster.spot, cluster.points[position].tolist())
        return timely + float(cluster.doubt[position]) + self._weight * gap

    def _rounding(self, reach: float) -> float:
        """Return a bound on what rounding does to scores whose terms are within ``reach``."""
        return CLOSE * (1 + self._age_weight + reach)

    def keep(self, cluster: Cluster, position: int, point: Point) -> None:
        """Take note of a newcomer among the members of an anchored cluster."""
        if cluster.anchor is not None:
            doubt, far = float(cluster.doubt[position]), self._weight * dist(point, cluster.anchor)
            cluster.kept[position] = doubt + far
            cluster.rounding = max(cluster.rounding, self._rounding(abs(doubt) + far))
            if far > _HUGE:
                cluster.anchor = None

    def _anchor(self, cluster: Cluster, now: int) -> int:
        """Return the position of the highest H(x), found exactly; keep the terms on the way."""
        scores, gaps = self._exact(cluster, _ALL, now)
        if self._anchors:
            reach = float(np.abs(cluster.doubt).max()) + float(gaps.max())
            if reach < _HUGE:
                np.add(cluster.doubt, gaps, out=cluster.kept)
                cluster.anchor, cluster.rounding = cluster.spot, self._rounding(reach)
        return highest(scores, cluster.whole[SERIAL])

    def _exact(self, cluster: Cluster, rivals: slice | Positions, now: int) -> tuple[Array, Array]:
        """Return scores and weighted distances ``(M,)``; this is what a decision stands on."""
        # H(x) = timeliness + doubt + distance, added in this order.
        scores = self._timeliness(now - cluster.ages_from[rivals])
        scores += cluster.doubt[rivals]
        gaps = self._gaps(cluster.points[rivals], cluster.centre)
        if self._weight != 1:
            gaps *= self._weight
        scores += gaps
        return scores, gaps

    def _timeliness(self, ages: NDArray[np.int64]) -> Array:
        if self._by_age is None:
            self._by_age = timeliness_by_age(self._capacity, self._age_weight)
        return self._by_age.take(ages, mode="clip")
