"""What stands in a table: which number of which experiment goes into which row and column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from multipool.bench.paper.case import Case
from multipool.bench.run.result import Result

STREAM = 150_000  # images of the paper's CIFAR streams: its times are those of so many
_PIXELS = {"tiny-imagenet-c": 64, "imagenet-c": 224, "domainnet126": 224}


@dataclass(frozen=True)
class TableEntry:
    """One cell: a measure of a case. ``against`` is the row that it is compared with by seed."""

    row: str
    column: str
    case: Case
    measure: str = "error"
    against: str = ""
    part: str = ""  # the title of a further table below the first


def measured(run: Result, measure: str) -> float | None:
    """Return a number of a run by the name of its measure; None: it has none.

    ``round 3`` and ``error in fog`` are read as well.
    """
    kind, _, rest = measure.partition(" ")
    if kind == "round":
        return _round(run, int(rest))
    if kind == "error" and rest:
        return run.errors.get(rest.removeprefix("in "))
    return MEASURES[measure](run)


def _error(run: Result) -> float | None:
    return run.error


def _round(run: Result, number: int) -> float | None:
    """Return the error of one round; a method that does not learn has the same in all."""
    if not run.rounds:
        return run.error
    return float(run.rounds[number - 1]["error"]) if number <= len(run.rounds) else None


def _time(run: Result) -> float | None:
    """Return the seconds that the paper's whole stream would take at this run's speed."""
    seconds = run.timing.get("stream")
    return None if not seconds or not run.samples else seconds * STREAM / run.samples


def _bank(run: Result) -> float | None:
    """Return the space of the images held, in MiB."""
    if run.memory is None:
        return None
    side = _PIXELS.get(str(run.settings["dataset"]), 32)
    return float(run.memory["size"]) * 3 * side * side / 2**20


def _gpu(run: Result) -> float | None:
    """Return the most that was allocated on the GPU, in MiB."""
    found = run.host.get("gpu_peak_memory_mib")
    return float(found) if isinstance(found, int | float) else None


MEASURES: Mapping[str, Callable[[Result], float | None]] = {
    "error": _error,
    "average": _error,
    "time": _time,
    "bank": _bank,
    "gpu": _gpu,
}
# Other work on the machine can only make these larger, so the least over the seeds counts.
LEAST = ("time", "gpu")
