"""Figures 1, 4 and S2: look at streams and memories once, keep what was seen, draw it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from multipool.bench.paper.case import Case
from multipool.bench.paper.cell import Cell
from multipool.bench.paper.published import published
from multipool.bench.paper.setting import Setting
from multipool.bench.run.diagnose import (
    IMAGE_DESCRIPTORS,
    Snapshot,
    Watched,
    diagnose_memory,
    diagnose_stream,
)
from multipool.core import read_tensors, write_json, write_tensors
from multipool.data import Stream, StreamConfig, load
from multipool.diagnostics import Clusterability, Measured, occupancy_quality

FOLDER = "diagnoses"
MEMORIES = ("single", "mcm", "mcm+")
CASE = Case("petta", "single")
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
    found = modes(setting, out, tell)
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
    found = watched_memories(setting, out, tell)
    rows: dict[str, dict[str, dict[int, float]]] = {}
    for place, name in enumerate(MEMORIES):
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
    found = watched_memories(setting, out, tell)
    rows: dict[str, dict[str, dict[int, float]]] = {}
    for place, memory in enumerate(MEMORIES):
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
    paper, dataset = published(name), setting.dataset(CASE.dataset)
    return [
        Cell(row, column, values, paper.value(row, column), dataset=dataset)
        for row, columns in rows.items()
        for column, values in columns.items()
    ]


def modes(setting: Setting, out: Path, tell: Tell | None) -> dict[int, list[Clusterability]]:
    """Return the modes of the stream by seed and descriptor; ``tell`` None: only what is there."""
    found = {}
    for seed in setting.runs_seeds:
        path = _path(out, "stream", setting, seed, ".json")
        if not path.is_file() and tell is not None:
            tell(f"counting the modes of {setting.dataset(CASE.dataset)}, seed {seed}")
            write_json(path, [asdict(one) for one in _count(setting, seed)])
        if path.is_file():
            found[seed] = [_modes(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    return found


def _count(setting: Setting, seed: int) -> list[Clusterability]:
    dataset = setting.dataset(CASE.dataset)
    config = StreamConfig(seed=seed, limit=setting.total(dataset))
    stream = Stream(load(dataset, setting.data_dir), config)
    return diagnose_stream(stream, IMAGE_DESCRIPTORS, seed=seed)


def _modes(content: Mapping[str, Any]) -> Clusterability:
    lists = {key: tuple(content[key]) for key in ("starts", "best")}
    bic = tuple(tuple(row) for row in content["bic"])
    return Clusterability(**{**content, **lists, "bic": bic})


def watched_memories(setting: Setting, out: Path, tell: Tell | None) -> dict[int, list[Watched]]:
    """Return what PeTTA's memories held by seed; ``tell`` None: only what is there."""
    found = {}
    for seed in setting.runs_seeds:
        path = _path(out, "memory", setting, seed, ".safetensors")
        if not path.is_file() and tell is not None:
            tell(f"watching the memories of petta, seed {seed}")
            watched = diagnose_memory(CASE.experiment(setting, seed), MEMORIES)
            write_watched(path, watched)
        if path.is_file():
            found[seed] = read_watched(path)
    return found


def write_watched(path: Path, watched: list[Watched]) -> None:
    """Keep what was seen of several memories on one stream in a file."""
    tensors = {}
    for place, one in enumerate(watched):
        for time, snapshot in enumerate(one.snapshots):
            # The stream is the same for all memories: kept once.
            if place == 0:
                tensors[f"stream.{time}"] = snapshot.stream.float()
            tensors[f"held.{place}.{time}"] = snapshot.held
            tensors[f"clusters.{place}.{time}"] = snapshot.clusters
    about = [
        {
            "name": one.name,
            "error": one.error,
            "capacity": one.capacity,
            "trace": [[point.samples, point.quality.occupancy] for point in one.trace],
            "snapshots": [[shot.samples, shot.quality.occupancy] for shot in one.snapshots],
            "changes": one.changes,
        }
        for one in watched
    ]
    write_tensors(path, tensors, {"watched": json.dumps(about)})


def read_watched(path: Path) -> list[Watched]:
    """Return what :func:`write_watched` kept."""
    tensors, metadata = read_tensors(path)
    found = []
    for place, about in enumerate(json.loads(metadata["watched"])):
        snapshots = [
            Snapshot(
                samples=samples,
                stream=tensors[f"stream.{time}"].to(torch.float64),
                held=tensors[f"held.{place}.{time}"],
                clusters=tensors[f"clusters.{place}.{time}"],
                quality=occupancy_quality(occupancy),
            )
            for time, (samples, occupancy) in enumerate(about["snapshots"])
        ]
        trace = [Measured(samples, occupancy_quality(held)) for samples, held in about["trace"]]
        found.append(
            Watched(
                about["name"],
                about["error"],
                about["capacity"],
                tuple(trace),
                tuple(snapshots),
                tuple(about["changes"]),
            )
        )
    return found


def _path(out: Path, kind: str, setting: Setting, seed: int, ending: str) -> Path:
    """Return where a diagnosis is kept: its name says what was looked at, not where."""
    weights = setting.weights_of(setting.dataset(CASE.dataset)) if kind == "memory" else None
    text = CASE.identity(setting, seed) + Path(weights or "").name
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return out / FOLDER / f"{kind}-{setting.dataset(CASE.dataset)}-seed{seed}-{digest}{ending}"
