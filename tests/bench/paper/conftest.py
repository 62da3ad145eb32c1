"""Results that nobody ran: written where a sweep would write them, in a moment."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from multipool.bench.run.result import Result
from multipool.bench.sweep.drive import Ended
from multipool.data.corruptions import COMMON


def invented(planned, base=40.0):
    """Return a complete result whose error depends on the settings and the seed alone."""
    settings = planned.settings
    text = json.dumps({k: v for k, v in settings.items() if k not in ("seed", "device")})
    error = base + sum(map(ord, text)) % 97 / 10 + settings["seed"] / 10
    recurring = settings["protocol"] == "recurring"
    rounds = [{"error": error + r} for r in range(settings["rounds"])] if recurring else []
    memory = {"size": 64, "sizes": [64], "events": {}, "trace": []}
    return Result(
        error=error,
        errors={name: error + place for place, name in enumerate(COMMON)},
        complete=True,
        settings=settings,
        versions={"torch": "9.9"},
        seed=settings["seed"],
        samples=1500,
        total=1500,
        rounds=rounds,
        memory=None if settings["method"] == "source" else memory,
        timing={"stream": 3.0 + settings["seed"]},
        host={"gpu": "a GPU", "gpu_peak_memory_mib": 1000.0, "threads": 1},
    )


@dataclass
class Invented:
    """Stands in for ``sweep``: every run is done at once, but for those that are to fail."""

    asked: list = field(default_factory=list)
    fail: str = ""

    def __call__(self, runs, out, **rest):
        self.asked += runs
        failed = {}
        for run in runs:
            if self.fail and run.experiment.method == self.fail:
                failed[run.name] = "it broke"
            else:
                invented(run).write(run.folder(out))
        return Ended((), (), failed, None)


@pytest.fixture
def inventing(monkeypatch):
    stand_in = Invented()
    monkeypatch.setattr("multipool.bench.paper.drive.sweep", stand_in)
    return stand_in


@pytest.fixture
def invent():
    return invented
