"""How a stream went, at one point a second at most: for the live page."""

from __future__ import annotations

import math

import numpy as np

POINTS = 180
FIELDS = ("time", "images", "estimate", "entropy", "pools", "pool")


class History:
    """The last points of a stream in a small ring of numbers; -1 and NaN say 'not known'."""

    def __init__(self, points: int = POINTS, apart: float = 1.0) -> None:
        self._points, self._apart = points, apart
        self._rows = np.empty((0, len(FIELDS)))

    def add(
        self,
        time: float,
        images: int,
        estimate: float | None,
        entropy: float,
        pools: int = -1,
        pool: int = -1,
    ) -> None:
        """Put a point down; it takes the place of one that came too soon."""
        known = math.nan if estimate is None else estimate
        row = np.array([[time, images, known, entropy, pools, pool]], dtype=np.float64)
        rows = self._rows
        if len(rows) > 1 and rows[-1, 0] - rows[-2, 0] < self._apart:
            rows = rows[:-1]
        self._rows = np.concatenate([rows, row])[-self._points :]

    def lists(self) -> dict[str, list[float | None]]:
        """Return the points by field, oldest first, ready for JSON."""
        return {
            name: [None if math.isnan(v) else v for v in column.tolist()]
            for name, column in zip(FIELDS, self._rows.T, strict=True)
        }
