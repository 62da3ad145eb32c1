"""Regret: how much more a method errs than the best one on the same stream. Pure functions.

Errors and regrets are tables: column (a kind of stream) -> row (a method) -> points.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

Table = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Score:
    """The error of one run, in per cent."""

    column: str
    row: str
    seed: int
    error: float


@dataclass(frozen=True)
class Standing:
    """How a method did over all columns that it has; points.

    ``worse`` counts the columns in which it erred more than ``source``, ``excess`` is by how much
    at most (below 0: never); both None where there is no column with ``source`` to compare with.
    """

    row: str
    columns: int
    mean: float
    worst: float
    worst_column: str
    worse: int | None
    excess: float | None


def average_seeds(scores: Iterable[Score]) -> dict[str, dict[str, float]]:
    """Return the mean error over the seeds of each column and row, in order of appearance.

    >>> average_seeds([Score("a", "bn", 0, 10.0), Score("a", "bn", 1, 12.0)])
    {'a': {'bn': 11.0}}
    """
    found: dict[str, dict[str, list[float]]] = {}
    for score in scores:
        found.setdefault(score.column, {}).setdefault(score.row, []).append(score.error)
    return {
        column: {row: statistics.fmean(errors) for row, errors in rows.items()}
        for column, rows in found.items()
    }


def regrets(errors: Table, apart: Collection[str] = ()) -> dict[str, dict[str, float]]:
    """Return each error minus the best of its column; a row that is missing does not count.

    Rows ``apart`` get a regret, which may be below 0, but set no column's best, unless they are
    alone in it.

    >>> regrets({"a": {"bn": 11.0, "tent": 9.5}})
    {'a': {'bn': 1.5, 'tent': 0.0}}
    """
    made = {}
    for column, rows in errors.items():
        judged = [error for row, error in rows.items() if row not in apart]
        best = min(judged or rows.values())
        made[column] = {row: error - best for row, error in rows.items()}
    return made


def standings(errors: Table, source: str, apart: Collection[str] = ()) -> list[Standing]:
    """Return how every row did, the smallest mean regret first; rows ``apart`` come last."""
    missed = regrets(errors, apart)
    rows = dict.fromkeys(row for column in errors.values() for row in column)
    made = [_standing(row, errors, missed, source) for row in rows]
    return sorted(made, key=lambda standing: (standing.row in apart, standing.mean))


def _standing(row: str, errors: Table, missed: Table, source: str) -> Standing:
    own = {column: values[row] for column, values in missed.items() if row in values}
    worst = max(own, key=lambda column: own[column])
    gaps = [
        values[row] - values[source]
        for values in errors.values()
        if row != source and row in values and source in values
    ]
    return Standing(
        row=row,
        columns=len(own),
        mean=statistics.fmean(own.values()),
        worst=own[worst],
        worst_column=worst,
        worse=sum(gap > 0 for gap in gaps) if gaps else None,
        excess=max(gaps, default=None),
    )
