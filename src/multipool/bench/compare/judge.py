"""All methods with the decoder, or all without it: errors, regrets and what follows from them."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from multipool.bench.compare.entrant import SOURCE, is_corrector
from multipool.bench.compare.regret import (
    Standing,
    Table,
    average_seeds,
    regrets,
    standings,
)
from multipool.bench.compare.rows import Row, scores

_NOTHING = 0.005  # points: what is printed as 0.00
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


def conclude(
    table: Sequence[Standing],
    apart: Collection[str] = (),
    names: Mapping[str, str] | None = None,
) -> str:
    """Return which method to use, and what speaks against it.

    Only methods that have all columns are weighed: one that was left out of the hard ones would
    look good. Standings come sorted, the smallest mean regret first; ``names`` are what columns are
    called, where that is shorter.
    """
    names = names or {}
    most = max((standing.columns for standing in table), default=0)
    weighed = [s for s in table if s.columns == most and s.row not in apart]
    if not weighed:
        return "Nothing can be concluded: there is no complete method to weigh."
    first, *others = weighed
    many = f"{most} kinds of stream" if most > 1 else "one kind of stream"
    where = names.get(first.worst_column, first.worst_column)
    if first.worst < _NOTHING:
        told = f"Use {first.row}: it is the best on {'all ' if most > 1 else ''}{many}"
    else:
        told = f"Use {first.row}: over {many} it errs {points(first.mean)} more than the best of "
        told += f"each on average and {points(first.worst)} at worst ({where})"
    if others:
        told += f"; next is {others[0].row} with {others[0].mean:.2f} and {others[0].worst:.2f}"
    told += "." + _against_source(first, most)
    safest = min(weighed, key=lambda standing: standing.worst)
    if safest.worst < first.worst:
        told += f" The smallest worst case is that of {safest.row}: {points(safest.worst)}"
        told += f" ({names.get(safest.worst_column, safest.worst_column)})."
    return told


def points(value: float) -> str:
    """Return a number of points in words.

    >>> points(1.0), points(0.123)
    ('1.00 points', '0.12 points')
    """
    return f"{value:.2f} points"


def _against_source(standing: Standing, columns: int) -> str:
    if standing.worse is None or standing.excess is None:
        return ""
    if standing.worse == 0:
        return " It was nowhere worse than the source model."
    return (
        f" It was worse than the source model in {standing.worse} of {columns}, "
        f"by at most {points(standing.excess)}."
    )
