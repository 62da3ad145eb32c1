"""The pages of the documentation, their tables, and the numbers in the cells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.])[-+]?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Table:
    """One table of a page; cells are without stars and back-ticks."""

    page: str  # relative to the repository
    line: int
    heading: str  # the last heading above it
    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """What a table is known by: its page, its heading and the start of its header."""
        return self.page, self.heading, " | ".join(self.header[:2])

    @property
    def measured(self) -> bool:
        """Whether any cell below the header has a decimal; defaults of options are no results."""
        return self.header[0] != "option" and any(
            re.search(r"\d\.\d", cell) for row in self.body for cell in row
        )


def pages() -> list[Path]:
    """Return README.md and all pages below docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def tables() -> list[Table]:
    """Return every table of the documentation."""
    return [table for page in pages() for table in read(page)]


def read(page: Path) -> list[Table]:
    """Return the tables of one page, in its order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found, heading, at = [], "", 0
    while at < len(lines):
        if lines[at].startswith("#"):
            heading = lines[at].lstrip("# ")
        if not lines[at].startswith("|"):
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        rows = [cells(line) for line in lines[at:end]]
        name = page.relative_to(ROOT).as_posix()
        found.append(Table(name, at + 1, heading, rows[0], tuple(rows[2:])))
        at = end
    return found


def cells(line: str) -> tuple[str, ...]:
    """Split a line of a table.

    >>> cells("| `a` | **1.5** |")
    ('a', '1.5')
    """
    plain = line.strip().strip("|").replace("*", "").replace("`", "")
    return tuple(cell.strip() for cell in plain.split("|"))


def numbers(cell: str) -> list[tuple[float, float]]:
    """Return each number of a cell with half of its last place.

    >>> numbers("-0.30 ± 0.01"), numbers("1,049"), numbers("as RoTTA")
    ([(-0.3, 0.005), (0.01, 0.005)], [(1049.0, 0.5)], [])
    """
    found = []
    for text in NUMBER.findall(cell):
        plain = text.replace(",", "")
        places = len(plain.partition(".")[2])
        found.append((float(plain), 0.5 * 10.0**-places))
    return found
