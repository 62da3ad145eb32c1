"""What a run measured, as it stands in ``result.json``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multipool.core import write_json

FILE = "result.json"
# The only keys whose values may differ between two equal runs.
VARYING = ("timing", "host", "samples_per_second")


@dataclass(frozen=True)
class Result:
    """One run: errors in per cent, and everything needed to understand and repeat it.

    ``error`` is the mean over the domains seen (in recurring streams over rounds as well) and
    None while nothing was seen. ``curve`` has one point per stretch of the stream, with the number
    of samples seen at its end; ``changes`` says at which sample which domain begins.
    """

    error: float | None
    errors: Mapping[str, float]
    complete: bool
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    seed: int
    samples: int  # scored so far
    total: int  # in the whole stream
    curve: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, Any] | None = None
    diagnostics: list[dict[str, Any]] = field(default_factory=list)  # of run --diagnose
    weights: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    timing: Mapping[str, float] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    samples_per_second: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``result.json``."""
        return dataclasses.asdict(self)

    def write(self, folder: str | Path) -> Path:
        """Write ``result.json`` into ``folder``, in one step, and return its path."""
        path = Path(folder) / FILE
        write_json(path, self.as_dict())
        return path


def read(path: str | Path) -> Result:
    """Return the result in a ``result.json``, or say why it is none."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = {f.name for f in dataclasses.fields(Result)}
        return Result(**{key: value for key, value in content.items() if key in known})
    except FileNotFoundError:
        raise FileNotFoundError(f"no result at {path}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a result of multipool run: {error}") from None


def find(folder: str | Path) -> list[Path]:
    """Return every ``result.json`` under ``folder``, sorted; at least one, or say so."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder at {folder}")
    paths = sorted(folder.rglob(FILE))
    if not paths:
        raise FileNotFoundError(
            f"no {FILE} under {folder}; make one with: multipool run --out {folder}/NAME"
        )
    return paths
