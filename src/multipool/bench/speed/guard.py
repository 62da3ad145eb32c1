"""What the guard costs: the same steps with and without it, in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from multipool import methods
from multipool.bench.speed.images import walk
from multipool.bench.speed.methods import _any_source, _turn, every_pair
from multipool.core import as_float
from multipool.engine.recovery import CALM


@dataclass(frozen=True)
class GuardCost:
    """Milliseconds of a batch without the guard, and what the guard adds; medians, warm."""

    method: str
    memory: str | None
    milliseconds: float  # a batch without the guard
    guarded: float  # a batch with it, no look for a collapse
    look: float  # a look, spread over the batches between two; 0: the method is not watched

    @property
    def percent(self) -> float:
        """Return what the guard adds to a batch while all is well, in per cent."""
        return 100 * (self.guarded + self.look / CALM - self.milliseconds) / self.milliseconds

    @property
    def most(self) -> float:
        """Return what it adds while something seems wrong, when it looks as often as it can."""
        return 100 * (self.guarded + self.look - self.milliseconds) / self.milliseconds


def measure_guard(
    model: nn.Module,
    images: Tensor,
    pairs: Iterable[tuple[str, str | None]] | None = None,
    *,
    batch_size: int = 64,
    batches: int = 20,
    warm_up: int = 5,
    progress: Callable[[str], None] | None = None,
) -> list[GuardCost]:
    """Return the guard's cost for each pair of method and memory on ``model``, where it is."""
    device = next(model.parameters()).device
    given = walk(images.to(device), batch_size, warm_up + batches, 0)
    source = _any_source(model, images, batch_size)
    found = []
    for method, memory in every_pair() if pairs is None else pairs:
        if progress is not None:
            progress(method if memory is None else f"{method} + {memory}")
        free, kept = (
            methods.adapt(model, method, memory, source=source, guard=guard, precision="float32")
            for guard in (False, True)
        )
        without, guarded, look = _in_turn(free, kept, given, warm_up)
        # A method without anything of its own to learn is never looked at.
        recovery = kept.stepper.recovery
        spread = 0.0 if recovery is None else 1000 * look / recovery.every
        found.append(GuardCost(method, memory, 1000 * without, 1000 * guarded, spread))
    return found


def _in_turn(
    free: methods.Adapter, kept: methods.Adapter, given: list[Tensor], warm_up: int
) -> tuple[float, float, float]:
    """Return the median seconds of a step without, of one with the guard, and of a look."""
    device = given[0].device
    times: list[list[float]] = []
    for index, images in enumerate(given):
        taken = _turn([partial(free.step, images), partial(kept.step, images)], index, device)
        taken += _turn([partial(_looker(kept), images)], index, device)
        if index >= warm_up:
            times.append(taken)
    without, guarded, look = (statistics.median(part) for part in zip(*times, strict=True))
    return without, guarded, look


def _looker(kept: methods.Adapter) -> Callable[[Tensor], object]:
    """Return what looks for a collapse once, whatever it finds."""
    guard, recovery = kept.stepper.guard, kept.stepper.recovery
    if guard is None or recovery is None:
        return lambda images: None
    logits = torch.zeros(1, kept.setup.num_classes, device=kept.device)
    return lambda images: kept.stepper.compare(
        kept.network.prepare(as_float(images)), logits, guard, recovery
    )
