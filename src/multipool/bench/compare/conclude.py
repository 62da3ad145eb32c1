"""The comparison in a sentence or two: which method to use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from multipool.bench.compare.regret import Standing

_NOTHING = 0.005  # points: what is printed as 0.00


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
        told += f" The smallest worst case has {safest.row}: {points(safest.worst)}"
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
        return " It was worse than the source model nowhere."
    return (
        f" It was worse than the source model in {standing.worse} of {columns}, "
        f"by at most {points(standing.excess)}."
    )
