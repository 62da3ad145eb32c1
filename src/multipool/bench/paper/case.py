"""One experiment of the paper, free of seed, scale and place; and its results in a folder."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multipool.bench.paper.setting import Setting
from multipool.bench.run import loader as loading
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.result import Result
from multipool.bench.sweep.collect import complete
from multipool.models import SHIPPED

# Where a run was made does not make it another run; weights are compared by their file's name.
_PLACES = ("data_dir", "device", "weights", "model")


@dataclass(frozen=True)
class Case:
    """A method with its memory on a stream."""

    method: str
    memory: str | None = None
    memory_options: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    protocol: str = "ptta"
    dataset: str = "cifar100-c"
    reset_every: int | None = None  # batches

    def experiment(self, setting: Setting, seed: int) -> Experiment:
        """Return the experiment to run; its weights must be there."""
        return Experiment(**self._fields(setting, seed))

    def identity(self, setting: Setting, seed: int) -> str:
        """Return by what its result is recognised, wherever it was made."""
        fields = self._fields(setting, seed)
        # Any weights will do: they are not part of it, and must not need to be on this machine.
        return identity(Experiment(**{**fields, "weights": next(iter(SHIPPED))}).settings())

    def _fields(self, setting: Setting, seed: int) -> dict[str, Any]:
        dataset = setting.dataset(self.dataset)
        return {
            "dataset": dataset,
            "method": self.method,
            "memory": self.memory,
            "protocol": self.protocol,
            "weights": setting.weights_of(dataset),
            "data_dir": setting.data_dir,
            "rounds": setting.repeats if self.protocol == "recurring" else 20,
            "seed": seed,
            "device": setting.device,
            "precision": setting.precision,
            "limit": setting.total(dataset),
            "reset_every": self.reset_every,
            "options": self.options,
            "memory_options": self.memory_options,
        }


def identity(settings: Mapping[str, Any]) -> str:
    """Return what makes two runs the same experiment: what is not usual, without paths and device.

    A setting that a later version adds, and that has its default, changes nothing.

    >>> a = Experiment(method="rotta", memory="single", device="cpu").settings()
    >>> b = Experiment(method="rotta", device="auto", rounds=3).settings()
    >>> identity(a) == identity(b)
    True
    """
    dataset, method = str(settings.get("dataset")), str(settings.get("method"))
    usual = _usual(dataset, method)
    kept = {key: v for key, v in settings.items() if key not in _PLACES and v != usual.get(key)}
    if settings.get("protocol") != "recurring":
        kept.pop("rounds", None)
    if kept.get("memory") == "single":
        del kept["memory"]
    options, plain = settings.get("options", {}), usual["options"]
    kept["options"] = {key: v for key, v in options.items() if v != plain.get(key)}
    kept |= {"dataset": dataset, "method": method, "seed": settings.get("seed")}
    return json.dumps(kept, sort_keys=True)


@functools.cache
def _usual(dataset: str, method: str) -> dict[str, Any]:
    """Return the settings of a run about which nothing else is said; none if there is no such."""
    try:
        plain = Experiment(dataset=dataset, method=method, weights=next(iter(SHIPPED)))
    except ValueError:  # of another version
        return {"options": {}}
    return json.loads(json.dumps(plain.settings()))


class Found:
    """The complete runs of a folder ``out/runs``.

    A run is found by its settings without paths and device. Its weights are told by the name of
    their file (those asked for, or, where none are, the only ones in the folder), and by their
    digest where the file is on this machine.
    """

    def __init__(self, out: Path, setting: Setting) -> None:
        self.setting, self.out = setting, out
        self._runs: dict[str, list[Result]] = {}
        for _, run in complete(out):
            self._runs.setdefault(identity(run.settings), []).append(run)

    def runs(self, case: Case) -> dict[int, Result]:
        """Return the results of a case by seed, as far as they are there."""
        found = {}
        for seed in self.setting.runs_seeds:
            run = self._chosen(case, seed)
            if run is not None:
                found[seed] = run
        return found

    def missing(self, cases: Iterable[Case]) -> list[tuple[Case, int]]:
        """Return the case and seed of every run that is not there."""
        seeds = self.setting.runs_seeds
        return [(case, seed) for case in cases for seed in seeds if not self._chosen(case, seed)]

    def _chosen(self, case: Case, seed: int) -> Result | None:
        runs = self._runs.get(case.identity(self.setting, seed), [])
        wanted = self.setting.weights_of(self.setting.dataset(case.dataset))
        if wanted is not None:
            runs = [run for run in runs if _weights(run) == Path(wanted).name]
            now = None
            with suppress(ValueError):  # who wants to run with such a file is told then
                now = loading.weights_digest(wanted)
            runs = [run for run in runs if now in (None, run.weights.get("digest", now))]
        names = sorted({_weights(run) for run in runs})
        if len(names) > 1:
            raise ValueError(
                f"{self.out} has runs of {case.dataset} with different weights "
                f"({', '.join(names)}); say which with --weights"
            )
        return runs[-1] if runs else None


def _weights(run: Result) -> str:
    return Path(str(run.settings.get("weights"))).name
