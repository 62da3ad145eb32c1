"""Cells as tables to read: ours beside the paper's, in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multipool.bench.paper.cell import Cell

NONE = "–"
# column -> title and digits
TITLES: dict[str, tuple[str, int]] = {
    "error": ("error %", 2),
    "round 1": ("round 1, %", 2),
    "average": ("average, %", 2),
    "time": ("time s", 0),
    "time, relative": ("relative time", 2),
    "threshold": ("best threshold", 3),
    "bank": ("bank MiB", 3),
    "gpu": ("GPU MiB", 0),
}
_MOST_WITH_STD = 8  # columns
_NO_DIFFERENCE = ("threshold", "time, relative")  # to the paper: it would say nothing
Maker = Callable[[Cell], str]


@dataclass(frozen=True)
class Block:
    """One table; the first column is words, the rest numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


def blocks(cells: Sequence[Cell], per_round: bool) -> list[Block]:
    """Return the tables of cells, a table for each part; parts without ours are left out.

    ``per_round``: the averages come first, then all rounds, ours above the paper's.
    """
    found = []
    for part in dict.fromkeys(cell.part for cell in cells):
        members = [cell for cell in cells if cell.part == part]
        if all(cell.ours is None for cell in members):
            continue
        if per_round:
            averages = [cell for cell in members if cell.column == "average"]
            found.append(_beside("Average over rounds", averages))
            found.append(_stacked("Round by round", members))
        else:
            found.append(_beside(part, members))
    return found


def _beside(title: str, cells: Sequence[Cell]) -> Block:
    """Return ours, the paper's and the difference in columns side by side."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_place = {(cell.row, cell.column): cell for cell in cells}
    heads, makers = [""], list[tuple[str, Maker]]()
    for column in columns:
        members = [cell for cell in cells if cell.column == column]
        if all(cell.ours is None for cell in members):
            continue
        for head, make in _makers(column, members, len(columns)):
            heads.append(head)
            makers.append((column, make))
    rows = []
    for row in dict.fromkeys(cell.row for cell in cells):
        line = [by_place.get((row, column)) for column, _ in makers]
        told = [NONE if c is None else make(c) for c, (_, make) in zip(line, makers, strict=True)]
        rows.append((row, *told))
    return Block(title, tuple(heads), tuple(rows))


def _makers(column: str, cells: Sequence[Cell], count: int) -> list[tuple[str, Maker]]:
    """Return the columns of one measure: a heading and how a cell is told, for each."""
    title, digits = TITLES.get(column, (column.replace("_", " "), 2))
    ours: Maker = lambda cell: value(cell, digits, count <= _MOST_WITH_STD)  # noqa: E731
    told: list[tuple[str, Maker]] = [(title, ours)]
    if any(cell.paper is not None for cell in cells):
        told = [(f"{title}, ours", ours)]
        told.append(("paper", lambda cell: fixed(cell.paper, digits)))
        if column not in _NO_DIFFERENCE:
            told.append(("ours - paper", lambda cell: signed(cell.difference, digits)))
    if any(cell.gain is not None for cell in cells):
        rows = {cell.against for cell in cells if cell.against}
        name = f"against {rows.pop()}" if len(rows) == 1 else "against its own pool"
        told.append((name, lambda cell: gain(cell, digits)))
        if any(cell.paper_gain is not None for cell in cells):
            told.append(("paper's", lambda cell: signed(cell.paper_gain, digits)))
    return told


def _stacked(title: str, cells: Sequence[Cell]) -> Block:
    """Return a line of ours, one of the paper's and their difference for every row."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_place = {(cell.row, cell.column): cell for cell in cells}
    rows = []
    for row in dict.fromkeys(cell.row for cell in cells):
        line = [by_place[row, column] for column in columns]
        if all(cell.ours is None for cell in line):
            continue
        rows.append((row, "ours", *(fixed(cell.ours, 1) for cell in line)))
        if any(cell.paper is not None for cell in line):
            rows.append(("", "paper", *(fixed(cell.paper, 1) for cell in line)))
            rows.append(("", "difference", *(signed(cell.difference, 1) for cell in line)))
    heads = [column.removeprefix("round ") for column in columns]
    heads = ["mean" if head == "average" else head for head in heads]
    return Block(title, ("", "", *heads), tuple(rows), left=2)


def fixed(value: float | None, digits: int = 2) -> str:
    """Return a number with so many digits, or a dash."""
    return NONE if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 2) -> str:
    """Return a difference with its sign, or a dash.

    >>> signed(-1.5, 1), signed(-0.04, 1), signed(None)
    ('-1.5', '+0.0', '–')
    """
    if value is None:
        return NONE
    told = f"{value:+.{digits}f}"
    return told.replace("-", "+") if float(told) == 0 else told


def value(cell: Cell, digits: int = 2, spread: bool = True) -> str:
    """Return ours with its standard deviation over seeds."""
    told = fixed(cell.ours, digits)
    if not spread or cell.std is None or cell.std == 0:
        return told
    return f"{told} ± {cell.std:.{digits}f}"


def gain(cell: Cell, digits: int = 2) -> str:
    """Return the paired difference with its standard error."""
    found = cell.gain
    if found is None:
        return NONE
    told = signed(found.difference, digits)
    return told if found.error is None else f"{told} ± {found.error:.{digits}f}"
