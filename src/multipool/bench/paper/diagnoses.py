"""Figures 1, 4 and S2: look at streams and memories once, keep what was seen, draw it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from multipool.bench.paper.case import Case
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
Tell = Callable[[str], None]


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
