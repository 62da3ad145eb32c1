"""A table or figure that has been made again: its cells, what stands around them, its pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from multipool.bench.paper.cell import Cell
from multipool.bench.paper.layout import Block, blocks
from multipool.bench.paper.setting import Setting
from multipool.bench.run.result import Result


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
