"""The lines of ``compare.csv``: one run each, written and read back."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from multipool.bench.compare.entrant import Entrant, label
from multipool.bench.compare.kind import Kind
from multipool.bench.compare.regret import Score
from multipool.bench.run.certificate import pack
from multipool.bench.run.result import Result
from multipool.core import brief, printable, write_csv

FILE = "compare.csv"


@dataclass(frozen=True)
class Row:
    """One run; errors in per cent, None where there is none.

    ``error`` is with the sequence decoder, ``undecoded_error`` without it, both of the same run.
    """

    kind: str
    dataset: str
    model: str
    method: str
    memory: str
    seed: int
    error: float | None
    undecoded_error: float | None
    images_per_second: float | None
    certificate: str = ""  # as ``pack`` writes it; older tables have none

    @property
    def column(self) -> str:
        """Return the column that the run belongs to."""
        return f"{self.dataset}/{self.model}/{self.kind}"

    @property
    def label(self) -> str:
        """Return the row that the run belongs to."""
        return label(self.method, self.memory)


def row_of(kind: Kind, entrant: Entrant, result: Result) -> Row:
    """Return the line of a complete run."""
    undecoded = result.undecoded_error
    return Row(
        kind=kind.name,
        dataset=kind.dataset,
        model=kind.model,
        method=entrant.method_name,
        memory=entrant.memory_name,
        seed=result.seed,
        # A run without a decoder has one error, which is undecoded.
        error=None if undecoded is None else result.error,
        undecoded_error=result.error if undecoded is None else undecoded,
        images_per_second=result.samples_per_second,
        certificate=pack([result.certificate]),
    )


def scores(rows: Iterable[Row], decoded: bool) -> list[Score]:
    """Return the errors with or without the decoder, of the runs that have them."""
    found = []
    for row in rows:
        error = row.error if decoded else row.undecoded_error
        if error is not None:
            found.append(Score(row.column, row.label, row.seed, error))
    return found


def write_rows(rows: Sequence[Row], out: Path) -> Path:
    """Write ``compare.csv`` into ``out`` in one step; return its path."""
    names = [part.name for part in dataclasses.fields(Row)]
    write_csv(out / FILE, [names, *(dataclasses.astuple(row) for row in rows)])
    return out / FILE


def read_rows(path: str | Path) -> list[Row]:
    """Return the lines of a ``compare.csv``, or say what is wrong with it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no table at {path}")
    names = [part.name for part in dataclasses.fields(Row)]
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if list(reader.fieldnames or []) not in (names, names[:-1]):
            raise ValueError(
                f"{path} is no table of multipool compare: its first line must be {','.join(names)}"
            )
        return [_row(line, f"{path}, line {reader.line_num}") for line in reader]


def _row(line: dict[str, str], where: str) -> Row:
    try:
        return Row(
            **{
                name: printable(line[name])
                for name in ("kind", "dataset", "model", "method", "memory")
            },
            seed=int(line["seed"]),
            error=_number(line["error"]),
            undecoded_error=_number(line["undecoded_error"]),
            images_per_second=_number(line["images_per_second"]),
            certificate=line.get("certificate", "").strip(),
        )
    except (TypeError, ValueError, AttributeError) as error:  # a short line has None at its end
        raise ValueError(f"{where} is no line of multipool compare: {brief(error)}") from None


def _number(text: str) -> float | None:
    if text == "":
        return None
    value = float(text)
    if not 0 <= value < 1e300:
        raise ValueError(f"a number from 0 on is expected, got {text}")
    return value
