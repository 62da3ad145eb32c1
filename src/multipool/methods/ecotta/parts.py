"""Where a convolutional network is cut into parts, and the small network beside each part.

The blocks of a model are the members of its lists of layers that hold a convolution; a model
without such lists is cut behind its normalisation layers (ours).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from multipool.ops import Group, LayerState, Network, batch
from multipool.ops.flat import Flat
from multipool.ops.steering import Norm

_EPS = 1e-5


@dataclass(frozen=True)
class _Place:
    """A module whose output can end a part, and the shapes ``(C, H, W)`` about it."""

    module: nn.Module
    taken: tuple[int, ...]
    given: tuple[int, ...]


@torch.no_grad()
def places(network: Network, shape: tuple[int, ...]) -> list[_Place]:
    """Return the modules that run once and end a block, in the order in which they run."""
    found: list[_Place] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and inputs[0].ndim == 4:
            found.append(_Place(module, tuple(inputs[0].shape[1:]), tuple(output.shape[1:])))

    wanted = _blocks(network.body)
    wanted = wanted or [m for m in network.body.modules() if isinstance(m, Norm)]
    hooks = [module.register_forward_hook(note) for module in wanted]
    network.plain(torch.zeros(2, *shape, dtype=torch.float32, device=network.device()))
    for hook in hooks:
        hook.remove()
    modules = [place.module for place in found]
    return [place for place in found if modules.count(place.module) == 1]


def _blocks(body: nn.Module) -> list[nn.Module]:
    """Return the outermost members of lists that hold a convolution and a normalisation."""
    if isinstance(body, (nn.Sequential, nn.ModuleList)):
        members = [m for m in body.children() if _holds(m, nn.Conv2d) and _holds(m, Norm)]
        if members:
            return members
    return [block for child in body.children() for block in _blocks(child)]


def _holds(module: nn.Module, kind: type[nn.Module]) -> bool:
    return any(isinstance(part, kind) for part in module.modules())


def ends(count: int, parts: int) -> list[int]:
    """Return after which of ``count`` blocks each part ends; the last takes what is left over.

    >>> ends(12, 5), ends(3, 5)
    ([1, 3, 5, 7, 11], [0, 1, 2])
    """
    parts = min(parts, count)
    each = count // parts
    return [*range(each - 1, each * (parts - 1), each), count - 1]


class MetaNetworks:
    """A copy of a network with a small one beside each part.

    x~_k = BN(x_k) + ReLU(BN(conv x~_k-1)), where x_k is what the frozen part makes of x~_k-1;
    convolutions are 3 x 3. All that is trained is in one flat vector ``values`` ``(P,)``.
    """

    def __init__(
        self, network: Network, shape: tuple[int, ...], parts: int, draws: np.random.Generator
    ) -> None:
        self.network = copy.deepcopy(network)
        found = places(self.network, shape)
        if not found:
            raise ValueError(
                "method 'ecotta' cuts a network of convolutions into parts, and this model has no "
                "block or normalisation layer over images; choose another method"
            )
        chosen = [found[index] for index in ends(len(found), parts)]
        starts = [found[0].taken, *(place.given for place in chosen[:-1])]
        leaves: list[Tensor] = []
        self._strides = []
        for start, place in zip(starts, chosen, strict=True):
            leaves += _new_leaves(start[0], place.given[0], draws, self.network)
            self._strides.append(_stride(start, place.given))
        self.flat = Flat(leaves, trainable=True)
        self.values = self.flat.values
        self._input = torch.empty(0)
        self._measuring = False
        self._losses: list[Tensor] = []
        found[0].module.register_forward_pre_hook(self._begin)
        for index, place in enumerate(chosen):
            place.module.register_forward_hook(self._after(index))

    def run(self, images: Tensor, *, measure: bool = False) -> tuple[Tensor, Tensor]:
        """Return the logits ``(B, L)`` and, where asked, sum_k mean |x~_k - x_k|, else 0.

        The distance of a part has a gradient for its own small network only.
        """
        self.flat.refresh()
        self._measuring, self._losses = measure, []
        (logits,) = self.network.run(Group(images, self.network.origin, batch))
        total = torch.stack(self._losses).sum() if self._losses else logits.new_zeros(())
        self._losses, self._input = [], torch.empty(0)
        return logits, total

    def _begin(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._input = inputs[0]

    def _after(self, index: int) -> Callable[[nn.Module, object, Tensor], Tensor]:
        """Return what is done to the output of part ``index``."""

        def hook(module: nn.Module, _: object, x: Tensor) -> Tensor:
            before = self._input
            if self._measuring:
                still = x.detach()
                apart = self.beside(index, still, before.detach()) - still
                self._losses.append(apart.abs().float().mean())
            out = self.beside(index, x, before)
            # What follows a normalisation layer may overwrite what it is given.
            self._input = out.clone() if isinstance(module, Norm) else out
            return out

        return hook

    def beside(self, index: int, x: Tensor, before: Tensor) -> Tensor:
        """Return BN(x) + ReLU(BN(conv before)) of part ``index``, by the batch's statistics."""
        scale, shift, kernel, inner_scale, inner_shift = self.flat.leaves[5 * index : 5 * index + 5]
        y = F.conv2d(before, kernel, stride=self._strides[index], padding=1)
        return _normalised(x, scale, shift) + F.relu(_normalised(y, inner_scale, inner_shift))


def _new_leaves(
    width: int, out: int, draws: np.random.Generator, network: Network
) -> Iterator[Tensor]:
    """Yield scale and shift, kernel, scale and shift of a small network, drawn as torch does."""
    device = network.device()
    bound = 1 / math.sqrt(9 * width)
    kernel = torch.from_numpy(draws.uniform(-bound, bound, (out, width, 3, 3)))
    yield from _identity(out, device)
    yield kernel.to(network.dtype).to(device)
    yield from _identity(out, device)


def _identity(width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the scale and shift ``(C,)`` that change nothing."""
    scale = torch.ones(width, dtype=torch.float32, device=device)
    return scale, torch.zeros_like(scale)


def _stride(taken: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, int]:
    """Return the stride of a 3 x 3 convolution from one shape ``(C, H, W)`` to another."""
    stride = tuple(-(-a // b) for a, b in zip(taken[1:], given[1:], strict=True))
    reached = tuple((a - 1) // s + 1 for a, s in zip(taken[1:], stride, strict=True))
    if reached != given[1:]:
        raise ValueError(
            f"method 'ecotta' needs parts that keep the size of a map or divide it, got one from "
            f"{taken[1]} x {taken[2]} to {given[1]} x {given[2]}"
        )
    return stride[0], stride[1]


def _normalised(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return ``x`` normalised by the batch; a single value a channel is only scaled."""
    return batch(x, LayerState(scale, shift, torch.zeros_like(scale), torch.ones_like(scale), _EPS))
