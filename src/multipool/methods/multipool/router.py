"""Which pool each image of the stream belongs to: found, recalled, split and merged on the way."""

from __future__ import annotations

import numpy as np

from multipool.methods.multipool.events import Event, Route
from multipool.methods.multipool.pools import CALM, LEAST, RECENT, WINDOW, Pools
from multipool.methods.multipool.rules import (
    Floats,
    Ints,
    distances,
    distinct,
    last_change,
    likely_path,
    staying,
    variation,
)
from multipool.ops.host import product

_FEW = 8  # images that a pool may begin with
_TEMPER = 0.5  # neighbours in a stream are alike: one image counts half


class Router(Pools):
    """Keeps, for every domain met, the mean description of its images.

    An image is described by a vector of ``width`` numbers. How images of one domain vary is learned
    from the stream itself; in these units one threshold tells a new domain from a run of one class.

    Args:
        width: D.
        most: pools at the most; the one longest unused makes room.
        new: squared distance per dimension beyond which a window of images is a new domain.
        same: below which two pools are one.
        mixed: nats a sample that two domains in one pool must explain better than one.
        seed: of the fits that look for two domains.
    """

    def sort(self, points: Floats, events: list[Event], runs: float = 0.0) -> Route:
        """Return the route of described images ``(B, D)`` after a look that brought ``events``.

        ``runs`` is added to ``new``: where classes come in runs, or few are shown, a window of a
        known domain is farther from its centre than one of mixed classes.
        """
        new = self._new + runs
        if len(points) <= WINDOW:
            return Route(self._window(points, new, events), events)
        windows = (points[i : i + WINDOW] for i in range(0, len(points), WINDOW))
        return Route(np.concatenate([self._window(w, new, events) for w in windows]), events)

    # One window ---------------------------------------------------------------------------------

    def _window(self, points: Floats, new: float, events: list[Event]) -> Ints:
        """Return the pools of a few images; they are new if they and the last ones fit nowhere."""
        if self.active < 0:
            self._create(points, events)
        if not self._varies():
            pools = np.full(len(points), self.active)
            self._take(points, pools, events)
            if self.numbers[0] >= LEAST:
                self._learn_variation(start=True)
            return pools
        white = self._whitener()
        pools = self._assign(points, white)
        before, owners = self._last(WINDOW - len(points))
        window = np.concatenate([before, points])
        known = np.concatenate([owners, pools])
        if len(window) >= LEAST and (gaps := self._far(window, known, white, new)) is not None:
            pools = self._begin(window, gaps, known, len(points), events)
        self._take(points, pools, events)
        return pools

    def _assign(self, points: Floats, white: Floats) -> Ints:
        alive = self.alive
        if len(alive) == 1:
            return np.full(len(points), alive[0])
        points = product(points, white)
        costs = 0.5 * _TEMPER * points.shape[1] * distances(points, self.centres[alive] @ white)
        start = int(alive.searchsorted(self.active))
        path = likely_path(costs, start, staying(int(self.numbers[4]), int(self.numbers[0])))
        return alive[path]

    def _far(self, window: Floats, pools: Ints, white: Floats, new: float) -> Floats | None:
        """Return how far images lie from their own pools, whitened, ``(B, D)``, if that is new.

        None if their mean is not farther than ``new`` away.
        """
        rest = window - self.centres[pools]
        gap = rest.mean(axis=0) @ white
        distance = float(gap @ gap) / len(gap)
        expected = 1 / len(window) + 1 / max(1.0, float(self.weights[pools].mean()))
        if distance - expected <= new:  # nearly always, and the rest is dearer
            return None
        gaps = product(rest, white)
        # Variation known from noise is too small for images of anything else: these count then.
        return gaps if distance / max(1.0, variation(gaps)) - expected > new else None

    def _take(self, points: Floats, pools: Ints, events: list[Event]) -> None:
        """Move the centres, and remember the images."""
        count = len(points)
        for pool in (used := distinct(pools)):
            mine, last = points, count - 1
            if len(used) > 1:
                places = np.flatnonzero(pools == pool)
                mine, last = points[places], int(places[-1])
            weight = min(self.weights[pool], CALM) + len(mine)
            mean = mine[0] if len(mine) == 1 else mine.mean(axis=0)
            self.centres[pool] += (mean - self.centres[pool]) * len(mine) / weight
            self.weights[pool] = weight
            self.samples[pool] += len(mine)
            self.used[pool] = self.numbers[0] + last
        if len(used) > 1 or used[0] != self.active:
            steps = np.flatnonzero(np.diff(np.concatenate([[self.active], pools])))
            made = {e.pool for e in events if e.kind == "created"}
            found = (int(pools[i]) for i in steps)
            events += [Event("recalled", pool) for pool in found if pool not in made]
            self.numbers[4] += len(steps)
        self._recent = self._recent.followed_by(points)
        self.owners = np.concatenate([self.owners[count:], pools])
        self.numbers[0] += count
        self.numbers[1] = pools[-1]

    def _begin(
        self, window: Floats, gaps: Floats, pools: Ints, count: int, events: list[Event]
    ) -> Ints:
        """Create a pool for the images since the change; return the pools of the last ``count``.

        The change may lie among these images; or, if they are few, before them. ``gaps`` are those
        of the window.
        """
        since = last_change(gaps, count if count < LEAST else _FEW)
        early, late = max(0, since - count), min(since, count)
        places = np.flatnonzero(self.owners >= 0)[-early:] if early else self.owners[:0]
        pool = self._create(window[-since:-count] if early else window[-late:], events)
        self.weights[pool] = max(self.weights[pool], early)
        self.owners[places] = pool
        found = pools[-count:].copy()
        found[-late:] = pool
        return found

    def _last(self, count: int) -> tuple[Floats, Ints]:
        """Return the last images that have a pool, at most ``count``, with their pools."""
        start = RECENT - count
        rows, owners = self.recent[start:], self.owners[start:]
        kept = owners >= 0
        return (rows, owners) if kept.all() else (rows[kept], owners[kept])
