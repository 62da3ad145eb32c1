"""The last rows of a stream, which many states of it may share."""

from __future__ import annotations

import numpy as np

from multipool.methods.multipool.rules import Floats

_ROOM = 256  # rows that a buffer has beyond those it keeps: four batches of 64


class Recent:
    """The last ``(N, D)`` rows of a stream; never changed, only followed by another.

    Half a megabyte is not moved for each image: what follows shares the buffer, behind whose last
    row there is room. The first who needs a place takes it; who finds it taken, because a stream
    went on from the same state twice, or finds no room takes a buffer of its own.

    >>> first = Recent(np.zeros((2, 1)))
    >>> one, other = first.followed_by(np.ones((1, 1))), first.followed_by(np.full((1, 1), 2.0))
    >>> first.rows[:, 0].tolist(), one.rows[:, 0].tolist(), other.rows[:, 0].tolist()
    ([0.0, 0.0], [0.0, 1.0], [0.0, 2.0])
    """

    def __init__(self, rows: Floats) -> None:
        self._buffer = _Buffer(rows, rows[:0])
        self._count = self._stop = len(rows)

    @property
    def rows(self) -> Floats:
        """The rows, oldest first, not to be written to."""
        return self._buffer.rows[self._stop - self._count : self._stop]

    def followed_by(self, points: Floats) -> Recent:
        """Return the last N rows after ``points`` ``(B, D)`` have come, too."""
        buffer, stop = self._buffer, self._stop + len(points)
        if buffer.taken != self._stop or stop > len(buffer.rows):
            points = points[-self._count :]
            buffer, stop = _Buffer(self.rows[len(points) :], points), self._count
        else:
            buffer.rows[self._stop : stop] = points
            buffer.taken = stop
        after = object.__new__(Recent)
        after._buffer, after._count, after._stop = buffer, self._count, stop
        return after


class _Buffer:
    """Rows, room for more of them, and how many places are taken."""

    def __init__(self, rows: Floats, more: Floats) -> None:
        self.taken = len(rows) + len(more)
        self.rows = np.empty((self.taken + _ROOM, rows.shape[1]))
        self.rows[: len(rows)] = rows
        self.rows[len(rows) : self.taken] = more
