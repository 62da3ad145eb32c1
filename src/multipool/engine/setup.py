"""Everything about an adapter that is not its method's: one object from the caller to the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

import numpy as np

from multipool.core import brief, unknown
from multipool.decode import DECODERS
from multipool.memory.checks import whole
from multipool.ops.flat import DTYPES

C = TypeVar("C")
AUTO = "auto"  # the faster precision of those that are safe; see precision.py
PRECISIONS = (AUTO, *DTYPES)
FALLBACKS = ("snapshot", "source")
BAD_INPUTS = ("raise", "mask")


@dataclass(frozen=True)
class Setup:
    """How an adapter is made, whatever its method: as users write it, and as files keep it.

    ``memory`` is a bank's name, None for the method's own, ``"bank"`` for an object of the user's.
    ``guard``, ``fallback`` and ``bad_input`` say what happens when something goes wrong;
    ``reset_every`` so many batches the adapter goes back to the source model (None: never).
    ``decode`` says whether answers are read in the order of the stream (``"sequence"``).
    ``precision`` is what passes compute in; ``"auto"`` is decided where the adapter is made, and
    its network says how (``precision.py``). ``graphs`` replays CUDA graphs; it changes nothing but
    what ``"auto"`` chooses, and is not kept in files.
    """

    num_classes: int
    seed: int = 0
    memory: str | None = None
    memory_options: Mapping[str, object] = field(default_factory=dict)
    guard: bool = True
    fallback: str = "snapshot"
    bad_input: str = "raise"
    precision: str = "float32"
    compile: bool = False
    reset_every: int | None = None
    decode: str = "none"
    graphs: bool = True

    def __post_init__(self) -> None:
        whole("num_classes", self.num_classes, 2)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        check_guard(self.guard, self.fallback, self.bad_input)
        if self.decode not in DECODERS:
            raise unknown("decoder", self.decode, DECODERS)
        if self.reset_every is not None:
            whole("reset_every", self.reset_every, 1)

    def saved(self) -> dict[str, object]:
        """Return what a file keeps of it, ready for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "graphs"}

    @classmethod
    def from_saved(cls, values: Mapping[str, Any]) -> Self:
        """Return the setup that :meth:`saved` told of; other entries are not read."""
        old = {"decode": "none"}  # files from before there was a choice
        values = {**old, **values}
        return cls(**{f.name: values[f.name] for f in fields(cls) if f.name != "graphs"})


def check_guard(guard: bool, fallback: str, bad_input: str = "raise") -> None:
    """Refuse unknown names, and a fallback that no guard would ever take."""
    if not isinstance(guard, bool):
        raise ValueError(f"guard must be True or False, got {guard!r}")
    if fallback not in FALLBACKS:
        raise unknown("fallback", fallback, FALLBACKS)
    if bad_input not in BAD_INPUTS:
        raise unknown("bad_input", bad_input, BAD_INPUTS)
    if fallback != FALLBACKS[0] and not guard:
        raise ValueError(
            f"fallback='{fallback}' needs guard=True, which falls back; got guard=False"
        )


def plain_options(options: object, name: str) -> dict[str, object]:
    """Return options by name, numpy's numbers as Python's, which a file can keep.

    >>> plain_options({"lr": np.float64(0.5)}, "options")
    {'lr': 0.5}
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ValueError(f"{name} must be a dict from names to values, got {brief(options)}")
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in options.items()}


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
        changed[name] = _like(known[name], value, f"option '{name}' of {owner}")
        if "lr" in name.split("_") and not 0 <= changed[name] < math.inf:
            raise ValueError(
                f"option '{name}' of {owner} is a learning rate and must be at least 0 and finite, "
                f"got {value!r}"
            )
    return replace(config, **changed)  # type: ignore[type-var]


def _like(default: object, value: object, what: str) -> object:
    """Return ``value`` as the kind of ``default``; ints pass as floats, nothing else is bent."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if default is not None and type(value) is not type(default):
        kind = type(default).__name__
        raise ValueError(f"{what} must be {kind}, got {value!r}")
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{what} must be a number, got nan")
    return value
