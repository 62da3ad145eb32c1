"""The cells and drawings of the figures that look at streams and memories (1, 4 and S2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from multipool.bench.paper import diagnoses
from multipool.bench.paper.cell import Cell
from multipool.bench.paper.published import published
from multipool.bench.paper.setting import Setting
from multipool.bench.run.diagnose import IMAGE_DESCRIPTORS, Watched

NUMBERS = ("imbalance", "entropy", "coverage")
TIMES = ("early", "late")  # of the snapshots, in their order
Draw = Callable[[Path, str], list[Path]]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Drawn:
    """What was seen, and how to draw it; nothing to draw if nothing was seen."""

    cells: list[Cell]
    draw: Draw | None = None


def stream_modes(setting: Setting, out: Path, tell: Tell | None) -> Drawn:
    """Return Fig. 1a: the mean K* of every descriptor, and the least and the most of them."""
    found = diagnoses.modes(setting, out, tell)
    means = {
        name: {seed: ones[place].mean for seed, ones in found.items()}
        for place, name in enumerate(IMAGE_DESCRIPTORS)
    }
    ends = {"least of the three": min, "most of the three": max}
    for row, pick in ends.items():
        means[row] = {seed: pick(one.mean for one in ones) for seed, ones in found.items()}
    cells = _cells("fig1a", setting, {row: {"mean K*": v} for row, v in means.items()})
    if not found:
        return Drawn(cells)

    def draw(folder: Path, face: str) -> list[Path]:
        from multipool.bench.report.diagnose_figures import draw_stream

        return list(draw_stream(next(iter(found.values())), folder, face).files)

    return Drawn(cells, draw)


def quality(setting: Setting, out: Path, tell: Tell | None) -> Drawn:
    """Return Fig. 4: imbalance, entropy and coverage, over time and at the end."""
    found = diagnoses.watched_memories(setting, out, tell)
    rows: dict[str, dict[str, dict[int, float]]] = {}
    for place, name in enumerate(diagnoses.MEMORIES):
        columns = rows.setdefault(name, {})
        columns["error"] = {seed: ones[place].error for seed, ones in found.items()}
        for number in NUMBERS:
            columns[f"{number}, mean"] = {s: o[place].mean(number) for s, o in found.items()}
            columns[f"{number}, end"] = {s: o[place].last(number) for s, o in found.items()}
    return Drawn(_cells("fig4", setting, rows), _drawing("fig4", found))


def contents(setting: Setting, out: Path, tell: Tell | None) -> Drawn:
    """Return Fig. S2: what the memories hold at two times."""
    return _contents("figS2", setting, out, tell)


def content_late(setting: Setting, out: Path, tell: Tell | None) -> Drawn:
    """Return Fig. 1b: what the memories hold at the later time."""
    return _contents("fig1b", setting, out, tell)


def _contents(name: str, setting: Setting, out: Path, tell: Tell | None) -> Drawn:
    found = diagnoses.watched_memories(setting, out, tell)
    rows: dict[str, dict[str, dict[int, float]]] = {}
    for place, memory in enumerate(diagnoses.MEMORIES):
        for time, word in enumerate(TIMES):
            if name == "fig1b" and word != TIMES[-1]:
                continue
            shots = {s: o[place].snapshots for s, o in found.items()}
            held = {s: shot[time].quality for s, shot in shots.items() if len(shot) > time}
            columns = rows.setdefault(memory, {})
            for number in ("imbalance", "coverage"):
                column = f"{number}, {word}"
                columns[column] = {s: float(getattr(q, number)) for s, q in held.items()}
    return Drawn(_cells(name, setting, rows), _drawing(name, found))


def _drawing(name: str, found: Mapping[int, list[Watched]]) -> Draw | None:
    if not found:
        return None

    def draw(folder: Path, face: str) -> list[Path]:
        from multipool.bench.report.diagnose_figures import draw_memory

        drawn = draw_memory(next(iter(found.values())), folder, face, only=name)
        return [file for picture in drawn for file in picture.files]

    return draw


def _cells(
    name: str, setting: Setting, rows: Mapping[str, Mapping[str, Mapping[int, float]]]
) -> list[Cell]:
    paper, dataset = published(name), setting.dataset(diagnoses.CASE.dataset)
    return [
        Cell(row, column, values, paper.value(row, column), dataset=dataset)
        for row, columns in rows.items()
        for column, values in columns.items()
    ]
