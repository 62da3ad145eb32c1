"""Banks by name: the two presets of the multi-cluster memory, and the single pools."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from multipool.core import Table, lookup
from multipool.memory.class_balanced import ClassBalancedPool
from multipool.memory.confidence import ConfidencePool
from multipool.memory.multicluster import MultiClusterMemory
from multipool.memory.pool import EntropyPool, FifoPool
from multipool.memory.protocol import Memory
from multipool.memory.reservoir import ReservoirPool

Option = int | float | str | bool | None
_GIVEN = ("num_classes", "seed")  # what every bank is made with, besides its options


@dataclass(frozen=True)
class Preset:
    """A class of banks and the options in which it departs from its defaults."""

    make: Callable[..., Memory]
    options: Mapping[str, Option] = field(default_factory=dict)

    def known(self) -> list[str]:
        """Return the names of the options, without the number of classes and the seed."""
        names = list(inspect.signature(self.make).parameters)
        return [name for name in names if name not in _GIVEN]

    def __call__(self, num_classes: int, seed: int = 0, **options: Option) -> Memory:
        """Return the bank, the caller's options over the preset's."""
        unknown = [name for name in options if name not in self.known()]
        if unknown:
            raise ValueError(
                f"unknown memory option '{unknown[0]}'; choose from: {', '.join(self.known())}"
            )
        return self.make(num_classes=num_classes, seed=seed, **{**self.options, **options})


# "mcm" is the paper. "mcm+" is ours; docs/notebook/results.md says what each departure brought:
# timely: the newest members are handed out first, and eviction goes by age alone, because what a
#   domain left behind spoils the normalisation statistics of the next one;
# balanced: at most six members of one pseudo-label in a cluster, because a correlated stream fills
#   a plain cluster with one class (CIFAR-10-C: 8 points of error);
# whole: the batch is topped up to n.
_TIMELY_AND_BALANCED: dict[str, Option] = {
    "class_quota": 6,
    "uncertainty_weight": 0.0,
    "distance_weight": 0.0,
    "draw": "newest",
    "fill": True,
}
BUILT_IN: dict[str, Preset] = {
    "mcm": Preset(MultiClusterMemory),
    "mcm+": Preset(MultiClusterMemory, _TIMELY_AND_BALANCED),
    "class-balanced": Preset(ClassBalancedPool),
    "entropy": Preset(EntropyPool),
    "reservoir": Preset(ReservoirPool),
    "fifo": Preset(FifoPool),
    "confidence": Preset(ConfidencePool),
}


def as_preset(found: object) -> Preset:
    """Return a class of banks, or a function that makes them, as an entry of the table.

    A class must take ``num_classes`` and ``seed``; a function is given what it takes of the two.
    Other arguments become options by their names.

    >>> as_preset(lambda: FifoPool(5, capacity=3))(num_classes=5, seed=1).capacity
    3
    """
    if isinstance(found, Preset):
        return found
    if not callable(found):
        raise ValueError(f"a memory must be a class of banks, got {type(found).__name__}")
    name = getattr(found, "__name__", type(found).__name__)
    try:
        arguments = [*inspect.signature(found).parameters.values()]
    except ValueError:  # classes written in C do not say what they take
        arguments = []
    anything = any(p.kind is p.VAR_KEYWORD for p in arguments)
    taken = {p.name for p in arguments}
    lacking = [] if anything else [word for word in _GIVEN if word not in taken]
    if not lacking:
        return Preset(found)
    needed = {p.name for p in arguments if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
    if isinstance(found, type) or needed - set(_GIVEN):
        raise ValueError(f"memory {name} must take {' and '.join(lacking)} as arguments")
    return Preset(_without(found, lacking))


def _without(make: Callable[..., Memory], lacking: list[str]) -> Callable[..., Memory]:
    """Return a function that keeps from ``make`` what it does not take."""

    @functools.wraps(make, updated=())
    def made(**options: Option) -> Memory:
        return make(**{name: value for name, value in options.items() if name not in lacking})

    return made


MEMORIES: Table[Preset] = Table(
    "memory", "multipool.memories", BUILT_IN, lambda name, found: as_preset(found)
)


def build(name: str, num_classes: int, seed: int = 0, **options: Option) -> Memory:
    """Return the bank called ``name``.

    Args:
        name: a key of ``MEMORIES``, or what an installed package adds.
        num_classes: L.
        seed: of its random draws.
        options: those of its class.

    >>> build("mcm", num_classes=100, capacity=32).capacity
    32
    >>> build("fifo", num_classes=10, size=3)
    Traceback (most recent call last):
    ...
    ValueError: unknown memory option 'size'; choose from: capacity, storage
    """
    made = lookup(MEMORIES, name, "memory")(num_classes, seed, **options)
    if not isinstance(made, Memory):
        raise ValueError(
            f"memory '{name}' must make a bank with add and retrieve, got {type(made).__name__}"
        )
    return made
