"""Count what was right, by domain and over time, and put it as results have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipool.data import Stream

Ints = npt.NDArray[np.int64]
# A stream that changes its domain, or its pool, more often than this has no boundaries worth
# listing.
MOST_CHANGES = 1000


class Tally:
    """Correct predictions of a stream of ``S`` samples, by group and by stretch of time.

    ``labels`` and ``groups`` are ``(S,)``; a group is a domain (in recurring streams: a domain of
    a round). They are copied to the device once; a batch costs two small additions there, and
    nothing is read back before somebody asks.
    """

    def __init__(
        self,
        labels: Ints,
        groups: Ints,
        group_count: int,
        stretch: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if stretch < 1:
            raise ValueError(f"stretch must be at least 1 sample, got {stretch}")
        self.device = torch.device(device)
        self.stretch, self.seen = stretch, 0
        self._groups = groups
        self._labels = torch.from_numpy(labels.copy()).to(self.device)  # (S,)
        self._group_of = torch.from_numpy(groups.copy()).to(self.device)  # (S,)
        stretches = -(-len(labels) // stretch)
        self._by_group = torch.zeros(group_count, dtype=torch.int64, device=self.device)
        self._by_time = torch.zeros(stretches, dtype=torch.int64, device=self.device)

    def add(self, logits: Tensor) -> None:
        """Score the next ``(B, L)`` logits against the next ``B`` labels."""
        rows = slice(self.seen, self.seen + len(logits))
        right = (logits.detach().argmax(dim=1) == self._labels[rows]).long()  # (B,)
        self._by_group.index_add_(0, self._group_of[rows], right)
        when = torch.arange(rows.start, rows.stop, device=self.device) // self.stretch
        self._by_time.index_add_(0, when, right)
        self.seen = rows.stop

    def group_errors(self) -> npt.NDArray[np.float64]:
        """Return the error of each group in per cent, ``(G,)``; NaN where nothing was seen."""
        counts = np.bincount(self._groups[: self.seen], minlength=len(self._by_group))
        return _errors(self._by_group.cpu().numpy(), counts)

    def curve(self) -> npt.NDArray[np.float64]:
        """Return the error of each stretch that was begun, in per cent."""
        begun = -(-self.seen // self.stretch)
        counts = np.full(begun, self.stretch)
        if begun and self.seen % self.stretch:
            counts[-1] = self.seen % self.stretch
        return _errors(self._by_time[:begun].cpu().numpy(), counts)

    def error(self) -> float | None:
        """Return the error over all samples so far, in per cent; None before the first."""
        return 100 - 100 * int(self._by_group.sum()) / self.seen if self.seen else None

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts, flat."""
        seen = torch.tensor(self.seen)
        return {"by_group": self._by_group, "by_time": self._by_time, "seen": seen}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from counts saved for the same stream."""
        for name, mine in (("by_group", self._by_group), ("by_time", self._by_time)):
            if state[name].shape != mine.shape:
                raise ValueError(
                    f"the saved counts are of another stream: {name} has "
                    f"{tuple(state[name].shape)}, expected {tuple(mine.shape)}"
                )
        self._by_group.copy_(state["by_group"])
        self._by_time.copy_(state["by_time"])
        self.seen = int(state["seen"])


def _errors(right: Ints, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(100 - 100 * right / counts, dtype=np.float64)


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


def curve_points(tally: Tally) -> list[dict[str, Any]]:
    """Return the error over time as results have it."""
    points = []
    for index, error in enumerate(tally.curve()):
        samples = min((index + 1) * tally.stretch, tally.seen)
        points.append({"samples": samples, "error": round(float(error), 4)})
    return points


def changes(ids: Ints, domains: tuple[str, ...]) -> list[dict[str, Any]]:
    """List at which sample of ``(S,)`` groups which domain begins, unless that is all the time."""
    first = np.flatnonzero(np.diff(ids, prepend=-1))
    if len(first) > MOST_CHANGES:
        return []
    width = len(domains)
    return [
        {
            "sample": int(sample),
            "domain": domains[int(ids[sample]) % width],
            "round": int(ids[sample]) // width,
        }
        for sample in first
    ]


def rounds_of(
    errors: np.ndarray[Any, np.dtype[np.float64]], domains: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the errors ``(R, domains)`` of the rounds that were begun."""
    found = []
    for row in errors:
        values = [None if np.isnan(v) else float(v) for v in row]
        seen = [v for v in values if v is not None]
        if seen:
            found.append({"error": mean(seen), "errors": named(domains, values)})
    return found
