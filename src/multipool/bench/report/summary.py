"""Runs that belong together, side by side: means and spreads over seeds, gains of a memory."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multipool.bench.run.result import Result
from multipool.methods import usual_memory

# What makes two runs comparable: the stream and the model. The rest makes two rows of one table.
CONTEXT = (
    "dataset",
    "protocol",
    "weights",
    "model",
    "severity",
    "domains",
    "limit",
    "batch_size",
    "gamma",
    "rounds",
    "shown",
    "distinct",
    "data_dir",
)
_OWN = ("method", "memory", "seed", "options", "memory_options", "source", "device")
NO_MEMORY = "–"


@dataclass(frozen=True)
class Row:
    """Runs that differ by their seed only, in order of seed."""

    method: str
    memory: str  # "single" is the method's own pool, "–" none; multipool's own choice is "mcm+"
    variant: str  # the settings that set it apart from rows of the same method and memory
    runs: tuple[Result, ...]

    @property
    def label(self) -> str:
        """Return a short name for tables and figures."""
        name = self.method if self.memory == NO_MEMORY else f"{self.method} + {self.memory}"
        return f"{name} ({self.variant})" if self.variant else name

    @property
    def mean(self) -> float:
        """Return the mean error over seeds, in per cent."""
        return statistics.fmean(_error(run) for run in self.runs)

    @property
    def std(self) -> float | None:
        """Return the sample standard deviation over seeds; None for a single seed."""
        errors = [_error(run) for run in self.runs]
        return statistics.stdev(errors) if len(errors) > 1 else None

    @property
    def undecoded(self) -> float | None:
        """Return the mean error before the decoder, in per cent; None where there was none."""
        return mean(run.undecoded_error for run in self.runs)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of the runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def speed(self) -> float | None:
        """Return the mean number of samples a second."""
        return mean(run.samples_per_second for run in self.runs)

    @property
    def memory_cost(self) -> float | None:
        """Return the time spent in the memory, in microseconds a sample; None without one."""
        if self.runs[0].memory is None:
            return None
        return mean(1e6 * run.timing.get("memory", 0.0) / max(1, run.samples) for run in self.runs)

    def domain_error(self, domain: str) -> float | None:
        """Return the mean error on one domain."""
        return mean(run.errors.get(domain) for run in self.runs)


@dataclass(frozen=True)
class Gain:
    """Difference of two rows, seed by seed; negative: the first makes fewer errors."""

    difference: float  # points
    error: float | None  # standard error of the mean difference; None for one seed
    pairs: int

    @classmethod
    def of(cls, gaps: Sequence[float]) -> Gain | None:
        """Return the mean of differences, one a seed; None of none."""
        if not gaps:
            return None
        error = statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else None
        return cls(statistics.fmean(gaps), error, len(gaps))


@dataclass(frozen=True)
class Section:
    """Rows that may be compared: the same stream, the same model."""

    context: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the domains in stream order."""
        longest = max((run for row in self.rows for run in row.runs), key=lambda r: len(r.errors))
        return tuple(longest.errors)

    def gain(self, row: Row) -> Gain | None:
        """Return what ``row`` gains over the same method with its own pool."""
        if row.memory in ("single", NO_MEMORY):
            return None
        same = (row.method, "single", _method_variant(row))
        for other in self.rows:
            if (other.method, other.memory, _method_variant(other)) == same:
                return paired(row, other)
        return None


def sections(runs: Iterable[Result]) -> list[Section]:
    """Return complete runs grouped by what they may be compared with, in a stable order."""
    groups: dict[str, list[Result]] = {}
    for run in runs:
        if run.complete and run.error is not None:
            context = {key: run.settings.get(key) for key in CONTEXT}
            # A file of weights may have been replaced between two runs: those are two models.
            context["weights' digest"] = run.weights.get("digest")
            groups.setdefault(json.dumps(context), []).append(run)
    return [Section(json.loads(key), _rows(members)) for key, members in groups.items()]


def paired(row: Row, other: Row) -> Gain | None:
    """Return the difference of two rows over the seeds that both have."""
    there = {run.seed: _error(run) for run in other.runs}
    return Gain.of([_error(run) - there[run.seed] for run in row.runs if run.seed in there])


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of what is there.

    >>> mean([1.0, None, 3.0])
    2.0
    """
    found = [value for value in values if value is not None]
    return statistics.fmean(found) if found else None


def _rows(runs: list[Result]) -> tuple[Row, ...]:
    """Return one row per combination of settings; of equal runs the last one counts."""
    groups: dict[str, dict[int, Result]] = {}
    for run in runs:
        rest = {key: value for key, value in run.settings.items() if key != "seed"}
        groups.setdefault(json.dumps(rest, sort_keys=True), {})[run.seed] = run
    found = [tuple(runs[seed] for seed in sorted(runs)) for runs in groups.values()]
    plain = [Row(str(r[0].settings["method"]), _memory_of(r[0]), "", r) for r in found]
    rows = [Row(r.method, r.memory, _variant(r, plain), r.runs) for r in plain]
    return tuple(sorted(rows, key=_order))


def _order(row: Row) -> tuple[int, str, int, str, str]:
    """Sort what does not adapt first, then by method; own pools before other memories."""
    memories = (NO_MEMORY, "single", "mcm", "mcm+")
    place = memories.index(row.memory) if row.memory in memories else len(memories)
    return (0 if row.memory == NO_MEMORY else 1, row.method, place, row.memory, row.variant)


def _variant(row: Row, rows: list[Row]) -> str:
    """Return the settings in which ``row`` differs from others of its method and memory."""
    others = [r for r in rows if (r.method, r.memory) == (row.method, row.memory)]
    mine = _flat(row.runs[0])
    told = []
    for key in sorted({key for other in others for key in _flat(other.runs[0])}):
        values = {json.dumps(_flat(other.runs[0]).get(key)) for other in others}
        if len(values) > 1:
            told.append(f"{key}={mine.get(key, 'default')}")
    return ", ".join(told)


def _method_variant(row: Row) -> str:
    """Return the settings of a row other than its memory's, to find its counterpart."""
    flat = {k: v for k, v in _flat(row.runs[0]).items() if not k.startswith("memory.")}
    return json.dumps(flat, sort_keys=True)


def _flat(run: Result) -> dict[str, Any]:
    """Return the settings that can tell rows of one method and memory apart."""
    settings = run.settings
    flat = {k: v for k, v in settings.items() if k not in (*CONTEXT, *_OWN)}
    flat.update(settings.get("options", {}))
    flat["source"] = settings.get("source")
    flat.update({f"memory.{k}": v for k, v in settings.get("memory_options", {}).items()})
    return flat


def _memory_of(run: Result) -> str:
    if run.memory is None:
        return NO_MEMORY
    return str(run.settings.get("memory") or usual_memory(str(run.settings["method"])))


def _error(run: Result) -> float:
    if run.error is None:
        raise ValueError("a run without an error has no place in a summary")
    return run.error
