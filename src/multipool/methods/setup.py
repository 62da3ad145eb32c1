"""What every method gets besides its own hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from multipool.core import unknown
from multipool.memory import Memory
from multipool.memory.checks import whole

C = TypeVar("C")
PRECISIONS = ("float32", "bf16")
FALLBACKS = ("snapshot", "source")
BAD_INPUTS = ("raise", "mask")


@dataclass(frozen=True)
class Setup:
    """The surroundings of an adapter: classes, seed, bank, source data, and how to compute.

    ``grouped`` runs passes that share frozen weights as one; ``graphs`` replays CUDA graphs;
    ``reset_every`` so many batches the adapter goes back to the source model (None: never).
    ``guard``, ``fallback`` and ``bad_input`` say what happens when something goes wrong.
    """

    num_classes: int
    seed: int = 0
    memory: Memory | None = None
    source: object | None = None
    guard: bool = True
    precision: str = "float32"
    compile: bool = False
    graphs: bool = True
    grouped: bool = False
    reset_every: int | None = None
    fallback: str = "snapshot"
    bad_input: str = "raise"

    def __post_init__(self) -> None:
        whole("num_classes", self.num_classes, 2)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        check_guard(self.guard, self.fallback, self.bad_input)
        if self.reset_every is not None:
            whole("reset_every", self.reset_every, 1)


def check_guard(guard: bool, fallback: str, bad_input: str = "raise") -> None:
    """Refuse unknown names, and a fallback that no guard would ever take."""
    if fallback not in FALLBACKS:
        raise unknown("fallback", fallback, FALLBACKS)
    if bad_input not in BAD_INPUTS:
        raise unknown("bad_input", bad_input, BAD_INPUTS)
    if fallback != FALLBACKS[0] and not guard:
        raise ValueError(
            f"fallback='{fallback}' needs guard=True, which falls back; got guard=False"
        )


def configure(config: C, options: Mapping[str, object], owner: str) -> C:
    """Return ``config`` with ``options`` put in, each known and of its field's kind.

    >>> @dataclass(frozen=True)
    ... class Config:
    ...     lr: float = 0.1
    >>> configure(Config(), {"lr": 1}, "toy")
    Config(lr=1.0)
    """
    known = {f.name: getattr(config, f.name) for f in fields(config)}  # type: ignore[arg-type]
    changed: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            raise unknown(f"option of {owner}", name, known)
        changed[name] = _like(known[name], value, f"{owner}'s option '{name}'")
    return replace(config, **changed)  # type: ignore[type-var]


def _like(default: object, value: object, what: str) -> object:
    """Return ``value`` as the kind of ``default``; ints pass as floats, nothing else is bent."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if default is not None and type(value) is not type(default):
        kind = type(default).__name__
        raise ValueError(f"{what} must be {kind}, got {value!r}")
    return value
