"""The files of a table or figure: all numbers as CSV, and a page to read as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from multipool.bench.paper.cell import Cell
from multipool.bench.paper.layout import Block
from multipool.bench.paper.reproduction import Reproduction
from multipool.core import write_text

COLUMNS = (
    "id",
    "scale",
    "dataset",
    "images of each domain",
    "part",
    "row",
    "column",
    "seeds",
    "ours",
    "std",
    "statistic",
    "paper",
    "ours - paper",
    "against",
    "paired difference",
    "standard error",
    "paper's difference",
    "by seed",
)


def write_csv(report: Reproduction, path: Path) -> None:
    """Write a line for every number of ours or of the paper's."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(line for cell in report.cells if (line := _line(report, cell)))
    write_text(path, text.getvalue())


def write_page(report: Reproduction, path: Path) -> None:
    """Write the tables, the figures and the notes as Markdown."""
    write_text(path, page(report, path.parent))


def page(report: Reproduction, folder: Path) -> str:
    """Return the Markdown page; pictures are linked from ``folder``."""
    parts = [f"# {report.name}: {report.title}", f"**{report.face}**"]
    for block in report.blocks:
        parts += [*([f"## {block.title}"] if block.title else []), markdown(block)]
    for picture in report.pictures:
        place = picture.relative_to(folder) if picture.is_relative_to(folder) else picture
        parts.append(f"![{report.title}]({place.as_posix()})")
    parts += [report.legend, "\n".join(f"- {note}" for note in report.notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(block: Block) -> str:
    """Return a block as a Markdown table.

    >>> print(markdown(Block("", ("", "error"), (("PeTTA", "35.80"),))))
    |  | error |
    | --- | ---: |
    | PeTTA | 35.80 |
    """
    rule = ["---"] * block.left + ["---:"] * (len(block.columns) - block.left)
    return "\n".join(_bar(line) for line in (block.columns, rule, *block.rows))


def _bar(words: Sequence[str]) -> str:
    return "| " + " | ".join(words) + " |"


def _line(report: Reproduction, cell: Cell) -> dict[str, object] | None:
    if cell.ours is None and cell.paper is None:
        return None
    gain = cell.gain
    return {
        "id": report.name,
        "scale": report.setting.scale,
        "dataset": cell.dataset,
        "images of each domain": report.setting.images or "all",
        "part": cell.part,
        "row": cell.row,
        "column": cell.column,
        "seeds": len(cell.values),
        "ours": _rounded(cell.ours),
        "std": _rounded(cell.std),
        "statistic": "least" if cell.least else "mean",
        "paper": cell.paper,
        "ours - paper": _rounded(cell.difference),
        "against": cell.against,
        "paired difference": None if gain is None else _rounded(gain.difference),
        "standard error": None if gain is None else _rounded(gain.error),
        "paper's difference": _rounded(cell.paper_gain),
        "by seed": " ".join(f"{s}:{_rounded(v)}" for s, v in cell.values.items()),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
