"""Test-time adaptation with a multi-cluster memory.

``multipool.adapt(model, method="rotta", memory="mcm+")`` wraps a classifier so that it keeps
learning from the unlabelled images it is asked about; ``multipool.load`` continues a saved one,
and ``multipool.share`` makes one copy of the weights serve many.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multipool import data, decode, diagnostics, engine, memory, methods, models, testing
    from multipool.methods import adapt, load, share

__version__ = "0.2.0"

_ROOMS = ("data", "decode", "diagnostics", "engine", "memory", "methods", "models", "testing")

__all__ = [
    "adapt",
    "data",
    "decode",
    "diagnostics",
    "engine",
    "load",
    "memory",
    "methods",
    "models",
    "share",
    "testing",
]


def __getattr__(name: str) -> object:
    """Import a room when it is first asked for: ``multipool --help`` need not wait for torch."""
    if name in _ROOMS:
        return importlib.import_module(f"multipool.{name}")
    if name in ("adapt", "load", "share"):
        return getattr(importlib.import_module("multipool.methods"), name)
    raise AttributeError(f"module 'multipool' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
