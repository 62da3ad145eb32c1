"""What a table of runs says in words: which method to use, and whether adapting paid at all."""

from __future__ import annotations

from collections.abc import Sequence

from multipool.bench.report.summary import Gain, Row, Section, paired

SOURCE, OURS = "source", "multipool"
CHANCE = 1.0  # points that one seed on a short stream may well be off by


def over_source(section: Section, row: Row) -> Gain | None:
    """Return how a row's error differs from the frozen model's; None where that was not run."""
    frozen = source_row(section.rows)
    return None if frozen is None or row is frozen else paired(row, frozen)


def source_row(rows: Sequence[Row]) -> Row | None:
    """Return the row of the frozen model, if there is one."""
    return next((row for row in rows if row.method == SOURCE), None)


def verdict(rows: Sequence[Row]) -> str:
    """Return the sentence that says which method to use, by the errors in the table.

    Rows that are too close to the best to tell apart are named beside it: with one seed those
    within ``CHANCE`` points, with several those within two standard errors of the difference.
    """
    order = sorted(rows, key=lambda row: row.mean)
    near = [row for row in order if _close(row, order[0])]
    rest = [row for row in order if row not in near]
    errors = " and ".join(f"{row.mean:.1f}" for row in near)
    told = f"On this stream use {' or '.join(map(_called, near))}: {errors} % error"
    if len(near) > 1:
        told += " (too close to call)"
    if rest:
        told += f"; next is {_called(rest[0])} with {rest[0].mean:.1f} %"
    frozen = source_row(rows)
    if frozen is None:
        return f"{told}; the source model was not run, so whether adapting pays is not known."
    if frozen in rest[1:]:
        told += f"; {_called(frozen)} has {frozen.mean:.1f} %"
    return f"{told}.{_harm(rows, frozen)}"


def _harm(rows: Sequence[Row], frozen: Row) -> str:
    """Return the sentence that names what is worse than not adapting."""
    worse = [row for row in rows if row.mean > frozen.mean and not _close(row, frozen)]
    if not worse:
        return ""
    return f" Worse than not adapting at all: {', '.join(map(_called, worse))}."


def _close(row: Row, other: Row) -> bool:
    """Tell whether two rows cannot be told apart."""
    if row is other:
        return True
    gap = paired(row, other)
    if gap is None or gap.error is None:
        return abs(row.mean - other.mean) < CHANCE
    return abs(gap.difference) <= 2 * gap.error


def _called(row: Row) -> str:
    """Return how a row is called in a sentence; the default's own bank goes without saying."""
    if row.method == SOURCE:
        return "the source model"
    return row.method if row.method == OURS and not row.variant else row.label
