"""How fast each method is, against the least that it has to compute."""

from __future__ import annotations

import copy
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multipool import methods
from multipool.bench.speed.images import in_lights, walk
from multipool.core import as_float
from multipool.methods import METHODS

_PLAIN_WARM_UP = 3  # rounds of the bare passes before they are timed
START, COLD = 10, 40  # batches that count as the start, and as cold
# Passes over a batch that a method cannot do without: forwards with stored statistics, forwards
# with the batch's own, both without a gradient, and forwards with one and its backward. Only
# methods that train the normalisation layers alone, and whose number of passes does not depend on
# the data.
PASSES: dict[str, tuple[int, int, int]] = {
    "source": (1, 0, 0),
    "bn": (0, 1, 0),
    "lame": (1, 0, 0),
    "neo": (1, 0, 0),
    "pl": (0, 0, 1),
    "tent": (0, 0, 1),
    "eata": (0, 0, 1),
    "rdumb": (0, 0, 1),
    "mecta": (0, 0, 1),
    "note": (1, 0, 1),
    "rotta": (1, 1, 1),
    "resitta": (1, 1, 1),
    "tribe": (1, 1, 2),
    "petta": (1, 2, 2),
    "unmix-tns": (0, 1, 0),
    "membn": (0, 1, 0),
    "sar": (0, 0, 2),
}


@dataclass(frozen=True)
class Speed:
    """The speed of one method with one memory; medians over batches, warm, unless it says cold."""

    method: str
    memory: str | None
    samples_per_second: float
    mean_per_second: float  # samples over the time of all batches measured, not of the median one
    source_share: float  # of the samples a second that plain inference (``source``) makes
    cold_per_second: float  # samples a second over the first batches, at most 40
    start_seconds: float  # from ``adapt`` until ten batches, or all there are, have come and gone
    milliseconds: float  # a batch
    forward_ratio: float  # time of a batch over one plain forward pass
    necessary_ratio: float | None  # over the bare passes of ``PASSES``; None: not in the table
    pool_ratio: float | None  # over the same method with its own pool; None: not measured beside it
    memory_share: float  # of the time that went into the memory
    precision: str  # that the passes computed in


def measure_methods(
    model: nn.Module,
    images: Tensor,
    pairs: Iterable[tuple[str, str | None]] | None = None,
    *,
    num_classes: int | None = None,
    batch_size: int = 64,
    batches: int = 20,
    warm_up: int = 5,
    look: int = 0,
    source: object | None = None,
    precision: str = "auto",
    compile: bool = False,  # noqa: A002
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[Speed]:
    """Return the speed of each pair of method and memory on ``model``, where the model is.

    The memories of one method, if they come one after another, take turns batch by batch.
    ``images`` is uint8 or float ``(N, C, H, W)``; batches walk through it again and again, as they
    are or, every ``look`` batches, in another light. A ``source`` for the methods that need one is
    made of random labels if left out: it changes the result of a method, not its speed.
    ``precision`` is that of :func:`multipool.adapt`: by default each method computes in what it
    would choose here, plain inference in float32.
    """
    if batches < 1 or batch_size < 1 or warm_up < 0 or look < 0:
        raise ValueError(
            "batches and batch_size must be at least 1, warm_up and look at least 0, got "
            f"{batches}, {batch_size}, {warm_up}, {look}"
        )
    device = next(model.parameters()).device
    pairs = every_pair() if pairs is None else list(pairs)
    given = in_lights(walk(images.to(device), batch_size, warm_up + batches, seed), look, seed)
    if source is None:
        source = _any_source(model, images, batch_size)
    passes = _plain_passes(model, given[0])
    found = []
    for method, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
        memories = [memory for _, memory in group]
        if progress is not None:
            named = ", ".join(memory for memory in memories if memory)
            progress(f"{method} with {named}" if named else method)
        how: dict[str, Any] = {
            "num_classes": num_classes,
            "seed": seed,
            "guard": False,
            "precision": precision,
        }
        make = functools.partial(methods.adapt, model, source=source, compile=compile, **how)
        made = [_made(functools.partial(make, method, memory), device) for memory in memories]
        plain = _made(functools.partial(make, "source"), device)
        adapters = [adapter for adapter, _ in (*made, plain)]
        times, shares = _seconds(adapters, passes, given, warm_up)
        steps = [statistics.median(part[warm_up:]) for part in times]
        steps, inference, bare = steps[: len(made)], steps[len(made)], steps[len(made) + 1 :]
        least, by_memory = _least(method, bare), dict(zip(memories, steps, strict=True))
        found += [
            Speed(
                method=method,
                memory=memory,
                samples_per_second=batch_size / seconds,
                mean_per_second=batch_size * batches / sum(each[warm_up:]),
                source_share=inference / seconds,
                cold_per_second=batch_size * len(each[:COLD]) / sum(each[:COLD]),
                start_seconds=begun + sum(each[:START]),
                milliseconds=1000 * seconds,
                forward_ratio=seconds / bare[0],
                necessary_ratio=None if least is None else seconds / least,
                pool_ratio=seconds / by_memory["single"] if "single" in by_memory else None,
                memory_share=share,
                precision=adapter.network.precision,
            )
            for memory, seconds, share, each, (adapter, begun) in zip(
                memories, steps, shares[: len(made)], times[: len(made)], made, strict=True
            )
        ]
    return found


def every_pair(memories: Sequence[str] = ("single", "mcm", "mcm+")) -> list[tuple[str, str | None]]:
    """Return every method, with each of ``memories`` where it takes one."""
    found: list[tuple[str, str | None]] = []
    for name, kind in METHODS.items():
        found += [(name, memory) for memory in memories] if kind.takes_memory else [(name, None)]
    return found


def _any_source(model: nn.Module, images: Tensor, batch_size: int) -> list[tuple[Tensor, Tensor]]:
    labels = torch.zeros(batch_size, dtype=torch.int64)
    return [(images[:batch_size], labels[: len(images[:batch_size])])] * 2


def _plain_passes(model: nn.Module, images: Tensor) -> list[Callable[[], None]]:
    """Return the three bare passes of ``PASSES``, in the layout that adapters use."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = as_float(images).contiguous(memory_format=torch.channels_last)
    layers = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    wanted = [p for layer in layers for p in layer.parameters()] or list(model.parameters())
    for parameter in wanted:
        parameter.requires_grad_(True)

    def forward() -> None:
        model.eval()
        with torch.no_grad():
            model(x)

    def by_batch() -> None:
        for layer in layers:
            layer.train()

    def batch_forward() -> None:
        by_batch()
        with torch.no_grad():
            model(x)

    def both() -> None:
        by_batch()
        torch.autograd.grad(model(x).logsumexp(dim=1).mean(), wanted)

    return [forward, batch_forward, both]


def _seconds(
    adapters: list[methods.Adapter],
    passes: list[Callable[[], None]],
    given: list[Tensor],
    warm_up: int,
) -> tuple[list[list[float]], list[float]]:
    """Return the seconds of each adapter's steps, then of each bare pass, and memory shares.

    Steps and bare passes take turns, so that a machine that slows down slows all of them.
    """
    device = given[0].device
    times: list[list[float]] = [[] for _ in (*adapters, *passes)]
    before = [0.0] * len(adapters)
    for index, images in enumerate(given):
        if index == warm_up:
            before = [adapter.seconds["memory"] for adapter in adapters]
        calls: list[Callable[[], object]]
        calls = [functools.partial(adapter, images) for adapter in adapters]
        calls += passes if index >= warm_up - _PLAIN_WARM_UP else [_nothing] * len(passes)
        for each, seconds in zip(times, _turn(calls, index, device), strict=True):
            each.append(seconds)
    shares = [
        (adapter.seconds["memory"] - start) / sum(each[warm_up:])
        for adapter, start, each in zip(adapters, before, times, strict=False)
    ]
    return times, shares


def _made(
    make: Callable[[], methods.Adapter], device: torch.device
) -> tuple[methods.Adapter, float]:
    """Return an adapter and the seconds that making it took."""
    start = _now(device)
    adapter = make()
    return adapter, _now(device) - start


def _nothing() -> None:
    """Take the place of a pass that is not timed yet."""


def _turn(calls: Sequence[Callable[[], object]], index: int, device: torch.device) -> list[float]:
    """Return the seconds of each call; every second turn goes backwards.

    What ran before leaves the caches and the allocator in its own state.
    """
    taken = [0.0] * len(calls)
    for position in range(len(calls))[:: 1 - 2 * (index % 2)]:
        start = _now(device)
        calls[position]()
        taken[position] = _now(device) - start
    return taken


def _least(method: str, bare: list[float]) -> float | None:
    if method not in PASSES:
        return None
    return sum(count * seconds for count, seconds in zip(PASSES[method], bare, strict=True))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
