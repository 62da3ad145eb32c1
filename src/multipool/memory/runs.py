"""Whose label is in doubt while a stream shows one class for long."""

from __future__ import annotations

from collections import Counter

import numpy as np

from multipool.memory.distances import Array, Whole


class Run:
    """The last samples that came to a memory, and whether most of them show one class.

    In a run of one class most samples that get another label are of that class, too, and were
    mistaken. Balanced by label, a memory would take them for rare, let them push out members that
    are right, and fill up with the one class under many names.
    """

    def __init__(self, length: int, share: float) -> None:
        """Look at ``length`` samples at a time, of which a run is at least a ``share``."""
        self._length, self._needed = length, share * length
        # What came before the next sample: with it, at most ``length``.
        self.labels = np.empty(0, dtype=np.int64)
        self.uncertainty = np.empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes of what is remembered, when it is full."""
        return 16 * (self._length - 1)

    def doubtful(self, labels: Whole, uncertainty: Array) -> Whole:
        """Take in a batch ``(B,)``; return 1 where a label is in doubt, else 0.

        It is if, of the last samples with this one, a run has another known label than this one,
        and more than half are at least as certain as it.
        """
        before = len(self.labels)
        doubts = np.concatenate((self.uncertainty, uncertainty))
        marks = np.concatenate((self.labels, labels))
        found = np.zeros(len(labels), dtype=np.int64)
        known = marks[marks >= 0]
        if len(known) and np.bincount(known).max() >= self._needed:
            for row in self._strangers(marks.tolist(), before):
                window = doubts[max(0, row + 1 - self._length) : row + 1]
                certain = np.count_nonzero(window <= doubts[row])
                found[row - before] = 2 * certain > len(window)
        start = max(0, len(marks) - self._length + 1)
        self.labels, self.uncertainty = marks[start:], doubts[start:]
        return found

    def _strangers(self, marks: list[int], before: int) -> list[int]:
        """Return the rows from ``before`` on that are in a run of another label than their own."""
        counts = Counter(marks[:before])
        # More than half of the window, so there is one at most, and it takes a new sample to win.
        runs = next((m for m, n in counts.items() if m >= 0 and n >= self._needed), None)
        rows = []
        for row in range(before, len(marks)):
            label = marks[row]
            counts[label] += 1
            if row >= self._length:
                counts[marks[row - self._length]] -= 1
            if label >= 0 and counts[label] >= self._needed:
                runs = label
            elif runs is not None and counts[runs] < self._needed:
                runs = None
            if runs not in (None, label) and label >= 0:
                rows.append(row)
        return rows
