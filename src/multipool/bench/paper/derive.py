"""Numbers that follow from others: the best threshold of a grid, times in relation to a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from multipool.bench.paper.cell import Cell
from multipool.bench.paper.grids import DATASETS, DISTANCES, GRID
from multipool.bench.paper.published import Published

RELATIVE = "time, relative"
AT_PAPERS = "At the paper's thresholds"


def as_they_are(cells: list[Cell], paper: Published) -> list[Cell]:
    """Return the cells unchanged."""
    return cells


def methods(cells: list[Cell], paper: Published) -> list[Cell]:
    """Return table 1; a dataset that stands in for another is called by its own name."""
    return [
        replace(cell, column="error", part=f"{cell.dataset} beside the paper's {cell.part}")
        if cell.part in DATASETS and cell.dataset != DATASETS[cell.part]
        else cell
        for cell in cells
    ]


def relative_times(cells: list[Cell], reference: str) -> list[Cell]:
    """Return the cells with every time also as a multiple of the time of one row."""
    times = {cell.row: cell for cell in cells if cell.column == "time"}
    base = times.get(reference)
    if base is None:
        return cells
    more = [
        replace(
            cell,
            column=RELATIVE,
            values=_ratio(cell.ours, base.ours),
            paper=None if not cell.paper or not base.paper else cell.paper / base.paper,
        )
        for cell in times.values()
    ]
    return cells + more


def descriptors(cells: list[Cell], paper: Published) -> list[Cell]:
    """Return table 3 with relative times and our best threshold of the CNN feature."""
    cells = relative_times(cells, "Pixel Stat (0.3)")
    best = _best(cell for cell in cells if cell.part == GRID)
    reference = _find(cells, "Pixel Stat (0.3)", "error")
    if best is None or reference is None:
        return cells
    threshold = best.row.partition("(")[2].rstrip(")")
    row = replace(
        best,
        row=f"CNN Feature, our best ({threshold})",
        part="",
        paper=paper.value("CNN Feature (5.0)", "error"),
        against=reference.row,
        others=reference.values,
    )
    first = next(index for index, cell in enumerate(cells) if cell.row.startswith("Pixel"))
    return [*cells[:first], row, *cells[first:]]


def consolidations(cells: list[Cell], paper: Published) -> list[Cell]:
    """Return table 4 with relative times."""
    return relative_times(cells, "ACC")


def distances(cells: list[Cell], paper: Published) -> list[Cell]:
    """Return table S2: each distance at its best threshold, then at the paper's, then the grid."""
    ours, theirs = list[Cell](), list[Cell]()
    for name in DISTANCES:
        grid = [cell for cell in cells if cell.row.startswith(f"{name}, ")]
        best, printed = _best(grid), paper.value(name, "threshold")
        there = next((c for c in grid if c.row == f"{name}, {printed}"), None)
        if best is None or there is None:
            continue
        tau = float(best.row.rpartition(", ")[2])
        chosen = dict.fromkeys(best.values, tau)
        ours.append(Cell(name, "threshold", chosen, printed, dataset=best.dataset))
        ours.append(_beside_paper(best, name, paper, ""))
        theirs.append(_beside_paper(there, name, paper, AT_PAPERS))
    return ours + theirs + cells


def _beside_paper(cell: Cell, name: str, paper: Published, part: str) -> Cell:
    printed = paper.value(name, "error")
    return replace(cell, row=name, part=part, paper=printed, paper_gain=_paper_gap(paper, name))


def _paper_gap(paper: Published, name: str) -> float | None:
    mine, best = paper.value(name, "error"), paper.value("Euclidean (L2)", "error")
    return None if mine is None or best is None or name == "Euclidean (L2)" else mine - best


def _best(cells: Iterable[Cell]) -> Cell | None:
    """Return the cell with the least mean among those with the most seeds."""
    there = [cell for cell in cells if cell.ours is not None]
    most = max((len(cell.values) for cell in there), default=0)
    complete = [cell for cell in there if len(cell.values) == most]
    return min(complete, key=lambda cell: cell.ours or 0.0, default=None)


def _find(cells: Iterable[Cell], row: str, column: str) -> Cell | None:
    return next((c for c in cells if (c.row, c.column, c.part) == (row, column, "")), None)


def _ratio(value: float | None, base: float | None) -> dict[int, float]:
    return {} if value is None or not base else {0: value / base}
