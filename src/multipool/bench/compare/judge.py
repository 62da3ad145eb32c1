"""All methods with the decoder, or all without it: errors, regrets and what follows from them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from multipool.bench.compare.conclude import conclude
from multipool.bench.compare.entrant import SOURCE, is_corrector
from multipool.bench.compare.regret import (
    Standing,
    Table,
    average_seeds,
    regrets,
    standings,
)
from multipool.bench.compare.rows import Row, scores

# --decode -> which tables are shown: with the decoder (True), without it (False).
DECODE: dict[str, tuple[bool, ...]] = {
    "both": (True, False),
    "none": (False,),
    "sequence": (True,),
}


@dataclass(frozen=True)
class Judgement:
    """One of the two tables; ``apart`` are rows that set no column's best."""

    decoded: bool
    errors: Table
    regrets: Table
    standings: Sequence[Standing]  # the smallest mean regret first
    apart: frozenset[str]

    @property
    def title(self) -> str:
        """Return what the table is called."""
        return "With the sequence decoder" if self.decoded else "Without the decoder"

    @property
    def conclusion(self) -> str:
        """Return which method to use."""
        return conclude(self.standings, self.apart, self.names)

    @property
    def names(self) -> dict[str, str]:
        """Return what columns are called: the kind alone where there is one dataset and model."""
        groups = {column.rpartition("/")[0] for column in self.errors}
        return {
            column: column.rpartition("/")[2] if len(groups) == 1 else column
            for column in self.errors
        }


def judge(rows: Sequence[Row], decoded: bool) -> Judgement | None:
    """Return the table with or without the decoder; None if no run has such an error."""
    errors = average_seeds(scores(rows, decoded))
    if not errors:
        return None
    names = {row for column in errors.values() for row in column}
    apart = frozenset() if decoded else frozenset(name for name in names if is_corrector(name))
    return Judgement(
        decoded, errors, regrets(errors, apart), standings(errors, SOURCE, apart), apart
    )


def speeds(rows: Sequence[Row]) -> dict[str, float]:
    """Return how fast each row is beside ``source``: the median ratio over columns.

    >>> slow = Row("k", "d", "m", "bn", "", 0, None, 1.0, 50.0)
    >>> speeds([slow, Row("k", "d", "m", "source", "", 0, None, 1.0, 200.0)])
    {'bn': 0.25, 'source': 1.0}
    """
    by_run = {(row.column, row.seed, row.label): row.images_per_second for row in rows}
    ratios: dict[str, list[float]] = {}
    for (column, seed, name), speed in by_run.items():
        plain = by_run.get((column, seed, SOURCE))
        if speed and plain:
            ratios.setdefault(name, []).append(speed / plain)
    return {name: statistics.median(values) for name, values in ratios.items()}
