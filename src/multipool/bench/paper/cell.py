"""What stands in a table: a number of an experiment of ours beside one of the paper's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from multipool.bench.paper.case import Case, Found
from multipool.bench.paper.published import Published
from multipool.bench.report.summary import Gain
from multipool.bench.run.certificate import Certificate
from multipool.bench.run.result import Result

STREAM = 150_000  # images of the paper's CIFAR streams: its times are those of so many
_PIXELS = {"tiny-imagenet-c": 64, "imagenet-c": 224, "domainnet126": 224}
Key = tuple[str, str, str]


@dataclass(frozen=True)
class TableEntry:
    """One cell: a measure of a case. ``against`` is the row that it is compared with by seed."""

    row: str
    column: str
    case: Case
    measure: str = "error"
    against: str = ""
    part: str = ""  # the title of a further table below the first


@dataclass(frozen=True)
class Cell:
    """A row and a column, our values by seed, the paper's value, and a row to compare with."""

    row: str
    column: str
    values: Mapping[int, float] = field(default_factory=dict)
    paper: float | None = None
    part: str = ""
    against: str = ""
    others: Mapping[int, float] = field(default_factory=dict)  # of the row compared with
    paper_gain: float | None = None  # the paper's difference between the two rows
    least: bool = False  # the least over the seeds counts, not the mean
    dataset: str = ""  # that ours was measured on
    measure: str = ""  # of a run; "": it follows from other numbers
    certificates: tuple[Certificate, ...] = ()  # of the runs, in order of ``values``

    @property
    def ours(self) -> float | None:
        """Return our value over all seeds."""
        values = list(self.values.values())
        if not values:
            return None
        return min(values) if self.least else statistics.fmean(values)

    @property
    def std(self) -> float | None:
        """Return the standard deviation over seeds; None for one, and where the least counts."""
        if self.least or len(self.values) < 2:
            return None
        return statistics.stdev(self.values.values())

    @property
    def difference(self) -> float | None:
        """Return our value less the paper's."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper

    @property
    def gain(self) -> Gain | None:
        """Return the difference to the row compared with, seed by seed, with its standard error."""
        return Gain.of([self.values[s] - self.others[s] for s in self.values if s in self.others])


def fill(entries: Iterable[TableEntry], found: Found, paper: Published) -> list[Cell]:
    """Return a cell for every entry."""
    entries = list(entries)
    read: dict[int, dict[int, Result]] = {}
    values, kept = {}, {}
    for entry in entries:
        runs = read.setdefault(id(entry.case), found.runs(entry.case))
        numbers = {seed: measured(run, entry.measure) for seed, run in runs.items()}
        values[_key(entry)] = {s: v for s, v in numbers.items() if v is not None}
        kept[_key(entry)] = tuple(runs[seed].certificate for seed in values[_key(entry)])
    place = found.setting.dataset
    cells = [_cell(entry, values, paper, place(entry.case.dataset)) for entry in entries]
    return [
        replace(cell, measure=entry.measure, certificates=kept[_key(entry)])
        for entry, cell in zip(entries, cells, strict=True)
    ]


def _cell(
    entry: TableEntry, values: Mapping[Key, Mapping[int, float]], paper: Published, dataset: str
) -> Cell:
    cell = Cell(
        row=entry.row,
        column=entry.column,
        values=values[_key(entry)],
        paper=paper.value(paper_row(entry.row), entry.column),
        part=entry.part,
        least=entry.measure in LEAST,
        dataset=dataset,
    )
    if not entry.against:
        return cell
    base = paper.value(paper_row(entry.against), entry.column)
    return replace(
        cell,
        against=entry.against,
        others=values.get((entry.part, entry.against, entry.column), {}),
        paper_gain=None if base is None or cell.paper is None else cell.paper - base,
    )


def paper_row(row: str) -> str:
    """Return the paper's row that a row of ours stands beside: two readings share one.

    >>> paper_row("LAME (RBF)"), paper_row("PeTTA")
    ('LAME', 'PeTTA')
    """
    return {"LAME (RBF)": "LAME", "RDumb as RoTTA with resets": "RDumb"}.get(row, row)


def _key(entry: TableEntry) -> Key:
    return entry.part, entry.row, entry.column


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
