"""How many requests a second a stream may send: a bucket that fills as time goes by."""

from __future__ import annotations

import time


class Rate:
    """Lets ``each_second`` requests through on the average, as many at once; 0: all of them.

    >>> rate = Rate()
    >>> [rate.wait(2.0, now) for now in (10.0, 10.0, 10.0, 10.5)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self) -> None:
        self._left: float | None = None  # requests that may come at once; None: the bucket is full
        self._at = 0.0

    def wait(self, each_second: float, now: float | None = None) -> float:
        """Return 0 and count a request, or the seconds after which it may be sent again."""
        if each_second <= 0:
            return 0.0
        now = time.monotonic() if now is None else now
        most = max(1.0, each_second)
        if self._left is not None:
            self._left = min(most, self._left + (now - self._at) * each_second)
        left, self._at = most if self._left is None else self._left, now
        self._left = left - 1 if left >= 1 else left
        return 0.0 if left >= 1 else (1 - left) / each_second
