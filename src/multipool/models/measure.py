"""What layers of a model are given: which axis is which, and the moments of each channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from multipool.core import as_float, batches, check_images
from multipool.ops.outputs import refused

Layout = tuple[int, int, int]  # the axis of images, that of channels, and how many axes there are
AXES = (2, 3, 4, 5)


@dataclass
class Moments:
    """Sums over what a layer is given, channel by channel, in float64."""

    layout: Layout
    count: int = 0
    first: Tensor = field(default_factory=lambda: torch.zeros(()))
    second: Tensor = field(default_factory=lambda: torch.zeros(()))

    def add(self, given: Tensor) -> None:
        """Count what the layer was given, in the layout that is known of it."""
        rows = given.movedim(self.layout[1], -1).flatten(0, -2).double()  # (values, C)
        self.count += len(rows)
        self.first = self.first.to(rows.device) + rows.sum(dim=0)
        self.second = self.second.to(rows.device) + rows.square().sum(dim=0)

    @property
    def mean(self) -> Tensor:
        """The mean of each channel, ``(C,)``."""
        return self.first / self.count

    @property
    def var(self) -> Tensor:
        """The biased variance of each channel, ``(C,)``."""
        return (self.second / self.count - self.mean.square()).clamp_min(0)


def measured(
    model: nn.Module, layers: list[nn.Module], images: object, most: int
) -> dict[nn.Module, Moments]:
    """Return the moments of what each layer is given for ``most`` images; of those that are run."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    moments: dict[nn.Module, Moments] = {}
    seen = 0

    def count(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        moments[layer].add(given[0])

    for given in batches(images, "images"):
        part = as_float(check_images(given[: most - seen]).to(device))
        if not moments:
            moments = _laid_out(model, layers, part[:1])
        with _hooked([layer.register_forward_pre_hook(count) for layer in moments]):
            model(part)
        seen += len(part)
        if seen >= most:
            break
    if seen < 2:
        raise ValueError(
            f"images must hold at least 2 source images to take a variance, got {seen}"
        )
    return moments


@contextmanager
def _hooked(handles: Sequence[RemovableHandle]) -> Iterator[None]:
    """Take hooks off again, whatever becomes of the pass."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _laid_out(model: nn.Module, layers: list[nn.Module], image: Tensor) -> dict[nn.Module, Moments]:
    """Return empty sums for each layer that sees images: with two, one of its axes is longer."""
    alone, twice = (_passed(model, layers, torch.cat([image] * n)) for n in (1, 2))
    found: dict[nn.Module, Moments] = {}
    for layer, (given, output) in twice.items():
        before = alone[layer][1].shape
        longer = [axis for axis, size in enumerate(output.shape) if size != before[axis]]
        if longer and output.ndim in AXES:
            channels = _channels(layer, given, output, longer[0])
            found[layer] = Moments((longer[0], channels, output.ndim))
    return found


def _passed(
    model: nn.Module, layers: list[nn.Module], images: Tensor
) -> dict[nn.Module, tuple[Tensor, Tensor]]:
    """Return what each layer is given and puts out; not of layers that the model never runs."""
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def keep(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        if given:  # by position, as all models of the libraries do
            passed[layer] = (given[0], output)

    try:
        with _hooked([layer.register_forward_hook(keep) for layer in layers]):
            model(images)
    except RuntimeError as error:
        raise refused(images, None, error) from error
    return passed


def _channels(layer: nn.Module, given: Tensor, output: Tensor, images: int) -> int:
    """Return the axis of ``output`` that the layer's scale runs along: the second or the last.

    Where both are as long as it, the layer is asked: its first number scales only its own channel.
    """
    last = output.ndim - 1
    scale = next(layer.parameters())
    ends = [axis for axis in (1, last) if axis != images and output.shape[axis] == scale.numel()]
    if len(set(ends)) == 1:
        return ends[0]
    if not ends:  # a number for every channel and place
        return 1 if output.ndim > 3 and images != 1 else last
    row = scale.detach().view(-1)
    before = row[0].clone()
    row[0] += 1
    moved = (layer(given) - output).abs()
    row[0] = before
    return 1 if moved.movedim(1, 0)[1:].sum() <= moved.movedim(last, 0)[1:].sum() else last
