"""Write the numbers of tables as their rows have them now: ``python tests/docs/renew.py``.

Sentences beside a table are for somebody to read. The best of a column is in bold where one was.
"""

from __future__ import annotations

import re
from math import isnan

from pages import NUMBER, Table, numbers, tables
from registry import TABLES
from rows import ROOT

SLACK = 0.0006  # rows are kept with four places, and means of them are taken again


def renewed(cell: str, values: list[float] | None) -> str:
    """Return a cell with these values, each with the places it had; other words stay."""
    kept = [value for value in values or () if not isnan(value)]
    wanted = iter(kept)

    def changed(found: re.Match[str]) -> str:
        (number, half), value = numbers(found[0])[0], next(wanted)
        if abs(value - number) <= half + SLACK:  # said rightly, whichever way a half was rounded
            return found[0]
        places = len(found[0].partition(".")[2])
        sign = "+" if found[0].startswith("+") or (found[0].startswith("-") and value > 0) else ""
        return f"{value:{sign}{',' if ',' in found[0] else ''}.{places}f}"

    return NUMBER.sub(changed, cell) if len(numbers(cell)) == len(kept) else cell


def lines_of(table: Table, lines: list[str]) -> list[str]:
    """Return the lines of a table's body as they should be."""
    expected = TABLES[table.key]()
    grid = [line.strip().strip("|").split("|") for line in lines]
    before = [cells[:] for cells in grid]
    for cells, (label, *_) in zip(grid, table.body, strict=True):
        for place, values in enumerate(expected.get(label, ()), start=1):
            cells[place] = renewed(cells[place], values)
    if grid == before:
        return lines
    for place in range(1, len(grid[0])):
        column = [cells[place] for cells in grid]
        if not any("**" in cell for cell in column):
            continue
        plain = [cell.replace("**", "") for cell in column]
        first = [found[0][0] if (found := numbers(cell)) else float("inf") for cell in plain]
        for cells, cell, value in zip(grid, plain, first, strict=True):
            cells[place] = f" **{cell.strip()}** " if value == min(first) else cell
    return ["|" + "|".join(cells) + "|" for cells in grid]


def main() -> None:
    """Renew every table that has rows."""
    for page in sorted({key[0] for key in TABLES}):
        path = ROOT / page
        lines = path.read_text(encoding="utf-8").splitlines()
        for table in tables():
            if table.page == page and table.key in TABLES:
                start = table.line + 1  # below the header and its rule
                lines[start : start + len(table.body)] = lines_of(
                    table, lines[start : start + len(table.body)]
                )
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
