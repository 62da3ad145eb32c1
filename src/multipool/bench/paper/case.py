"""One experiment of the paper, free of seed, scale and place; and how its result is recognised."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multipool.bench.paper.setting import Setting
from multipool.bench.run.experiment import Experiment
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
