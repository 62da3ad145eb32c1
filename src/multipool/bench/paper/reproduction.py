"""A table or figure that has been made again: its cells, what stands around them, its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from multipool.bench.paper.cell import Cell
from multipool.bench.paper.layout import Block, blocks
from multipool.bench.paper.setting import Setting
from multipool.bench.run.certificate import pack
from multipool.bench.run.result import Result
from multipool.core import write_csv, write_text


@dataclass(frozen=True)
class Reproduction:
    """What ``reproduce`` shows and writes for one id."""

    name: str
    title: str
    setting: Setting
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    made_on: str = ""
    per_round: bool = False
    pictures: tuple[Path, ...] = ()
    face: str = ""  # the line that says how much of the experiment this is

    @property
    def blocks(self) -> list[Block]:
        """Return the tables to read."""
        return blocks(self.cells, self.per_round)

    @property
    def legend(self) -> str:
        """Return how the numbers are to be read, and where ours were made."""
        told = []
        if any(cell.std is not None for cell in self.cells):
            told.append("Ours: mean ± standard deviation over seeds.")
        if any(cell.gain is not None for cell in self.cells):
            told.append(
                "Against another row: paired by seed, ± standard error; below 0: fewer errors."
            )
        if self.made_on:
            told.append(f"Made on: {self.made_on}.")
        return " ".join(told)


def machines(runs: Iterable[Result]) -> str:
    """Return where runs were made and with what, their models too, in words."""
    found = dict.fromkeys(_machine(run) for run in runs)
    return "; ".join(found)


def _machine(run: Result) -> str:
    host = run.host
    threads = f"{host.get('threads')} thread{'' if host.get('threads') == 1 else 's'}"
    device = host.get("gpu") or f"CPU ({host.get('processor')}, {threads})"
    precision = run.settings.get("precision", "float32")
    model = PurePath(str(run.weights.get("name", "?"))).name.removesuffix(".safetensors")
    return f"{device}, torch {run.versions.get('torch', '?')}, {precision}, {model}"


def write_table(report: Reproduction, path: Path) -> None:
    """Write a line for every number of ours or of the paper's."""
    told = [cell for cell in report.cells if not cell.ours is cell.paper is None]
    lines = [_line(report, cell) for cell in told]
    write_csv(path, [_line(report, Cell("", "")), *(line.values() for line in lines)])


def write_page(report: Reproduction, path: Path) -> None:
    """Write the tables, the figures and the notes as Markdown."""
    write_text(path, markdown_page(report, path.parent))


def markdown_page(report: Reproduction, folder: Path) -> str:
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


def _line(report: Reproduction, cell: Cell) -> dict[str, object]:
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
        "measure": cell.measure,
        "certificate": pack(cell.certificates),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
