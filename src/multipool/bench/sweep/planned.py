"""One run of a sweep: its experiment, its name, and what its folder says about it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from multipool.bench.run import result as results
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import same_weights
from multipool.bench.run.result import Result
from multipool.core import write_json

RUNS = "runs"  # the folder of a sweep that holds one folder a run
ABOUT, FAILED = "run.json", "failed.json"
_LONGEST = 80  # characters of a readable name; file systems allow 255


@dataclass(frozen=True)
class Planned:
    """An experiment with a place of its own; ``label`` is what tables call its memory.

    The place depends on the settings alone, so the same run is found again whichever file or
    program asks for it.
    """

    experiment: Experiment
    label: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return everything that decides the result, as it stands in ``result.json``."""
        return json.loads(json.dumps(self.experiment.settings()))

    @cached_property
    def name(self) -> str:
        """Return the folder's name: readable, and with a digest of the settings.

        >>> Planned(Experiment(method="source", seed=1)).name[:-10]
        'source-shapes-c-seed1-'
        """
        text = json.dumps(self.settings, sort_keys=True)
        return f"{readable(self.experiment)}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    @cached_property
    def load_key(self) -> str:
        """Return what a worker has to load: equal keys, equal dataset and model."""
        parts = ("dataset", "data_dir", "severity", "domains", "weights", "model", "device")
        return json.dumps([self.settings[part] for part in parts])

    def folder(self, out: Path) -> Path:
        """Return the run's folder in the sweep's folder ``out``."""
        return out / RUNS / self.name

    def describe(self, out: Path) -> None:
        """Write ``run.json`` beside the result, unless it says the same already."""
        path = self.folder(out) / ABOUT
        content = {"label": self.label, "settings": self.settings}
        if _json(path) != content:
            write_json(path, content)


def readable(experiment: Experiment) -> str:
    """Return what sets an experiment apart, in a form that is safe as a file name.

    >>> readable(Experiment(memory="mcm", memory_options={"threshold": 0.1}, protocol="ctta"))
    'multipool-mcm-threshold=0.1-shapes-c-ctta-seed0'
    """
    parts = [experiment.method, *([experiment.memory] if experiment.memory else [])]
    for options in (experiment.memory_options, experiment.options):
        parts += [f"{key}={value}" for key, value in options.items()]
    if experiment.guard:
        parts.append(f"guard={experiment.fallback}")
    parts.append(experiment.dataset)
    if experiment.protocol != "ptta":
        parts.append(experiment.protocol)
    plain = re.sub(r"[^A-Za-z0-9.+=_-]+", "_", "-".join(parts))
    return f"{plain[:_LONGEST]}-seed{experiment.seed}"


def finished(run: Planned, folder: Path) -> Result | None:
    """Return the complete result of ``run`` in its folder; None if there is none yet.

    What was made with a file of weights that has been replaced since is no result of this run.
    """
    try:
        found = results.read(folder / results.FILE)
        complete = found.complete and same_weights(run.experiment, found.weights)
    except (FileNotFoundError, ValueError):  # a damaged file is no result
        return None
    return found if complete else None


def failure(folder: Path) -> dict[str, Any] | None:
    """Return what ``failed.json`` in a run's folder says; None if the run has not failed."""
    content = _json(folder / FAILED)
    return content if isinstance(content, dict) and "error" in content else None


def label_of(folder: Path) -> str:
    """Return the label that a sweep's file gave the run in ``folder``; "" without one."""
    content = _json(folder / ABOUT)
    return str(content.get("label", "")) if isinstance(content, dict) else ""


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
