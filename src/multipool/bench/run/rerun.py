"""The command that makes a result again."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any

from multipool.bench.run.experiment import Experiment, usual_options
from multipool.bench.run.hyperparameters import SHIPPED_FOR, SOURCE_SPLITS


def command(settings: Mapping[str, Any], out: str | None = None) -> str:
    """Return the ``multipool run`` line for a run's settings; defaults are left out.

    >>> command(Experiment(method="source", limit=2000, seed=1).settings())
    'multipool run --dataset shapes-c --method source --limit 2000 --seed 1'
    """
    first = ("dataset", "method", "memory", "protocol", "limit", "seed")
    defaults = {f.name: f.default for f in dataclasses.fields(Experiment)}
    defaults["weights"] = SHIPPED_FOR.get(settings["dataset"])
    words = ["multipool", "run"]
    for key in (*first, *(k for k in defaults if k not in first)):
        value = settings.get(key)
        if key in ("options", "memory_options", "source"):
            continue
        if value is None or (value == defaults[key] and key not in ("dataset", "method")):
            continue
        words += _words(key, value)
    if settings.get("source") not in (None, SOURCE_SPLITS.get(settings["method"])):
        words += ["--source", str(settings["source"])]
    words += _set_words(settings)
    if out is not None:
        words += ["--out", out]
    return shlex.join(words)


def _words(key: str, value: object) -> list[str]:
    option = "--" + key.replace("_", "-")
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, list | tuple):
        return [option, ",".join(str(part) for part in value)]
    return [option, str(value)]


def _set_words(settings: Mapping[str, Any]) -> list[str]:
    """Return ``--set`` for every hyperparameter that is not what ``run`` would take anyway."""
    usual = usual_options(settings["method"], settings["dataset"], settings.get("batch_size"))
    words = []
    for key, value in settings.get("options", {}).items():
        if key not in usual or value != usual[key]:
            words += ["--set", f"{key}={value}"]
    for key, value in settings.get("memory_options", {}).items():
        words += ["--set", f"memory.{key}={value}"]
    return words
