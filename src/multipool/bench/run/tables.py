"""Small tables of a run: groups of samples, means over what was seen, names beside values."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipool.bench.run.tally import Ints
from multipool.data import Stream

# A stream that changes its domain, or its pool, more often than this has no boundaries worth
# listing.
MOST_CHANGES = 1000


def groups(stream: Stream, rounds: int) -> Ints:
    """Return the ``(S,)`` group of every sample: its domain, counted on through the rounds."""
    once = -(-stream.samples // rounds)  # a last batch of one may be left out of the last round
    return np.arange(stream.samples) // once * len(stream.domains) + stream.domain_ids


def sizes(memory: object) -> list[int]:
    """Return how many samples each cluster holds; a pool is one cluster."""
    clusters = getattr(memory, "clusters", None)
    if clusters is None:
        return [len(memory)]  # type: ignore[arg-type]
    return [int(size) for size in clusters.sizes]


def means(errors: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    """Return the mean of each row ``(rows, columns)`` over what was seen; None: nothing was."""
    return [mean([float(v) for v in row if not np.isnan(v)]) for row in errors]


def percent(share: float | None) -> float | None:
    """Return a share in per cent, as results have it."""
    return None if share is None else round(100 * share, 4)


def mean(values: list[float]) -> float | None:
    """Return the mean as results have it; None of nothing."""
    return round(sum(values) / len(values), 4) if values else None


def named(names: tuple[str, ...], values: list[float | None]) -> dict[str, float]:
    """Return the values that are there, by name."""
    pairs = zip(names, values, strict=True)
    return {name: round(value, 4) for name, value in pairs if value is not None}
