"""Sharpness-aware minimisation on a flat vector: learn from the worst place nearby.

Foret et al., Sharpness-Aware Minimization for Efficiently Improving Generalization, ICLR 2021, as
SAR and SoTTA use it at test time: two passes, the second from where the first one's loss is
largest within ``radius``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from multipool.ops.network import Network
from multipool.ops.steering import Norm, OwnNorm

_TINY = 1e-12  # a gradient of 0 climbs nowhere
# Blocks that SAR and its heirs leave alone: the last of a ResNet, the last three of a ViT-B.
_TOP = ("layer4", "blocks.9", "blocks.10", "blocks.11", "norm.")


@contextmanager
def climbed(values: Tensor, gradient: Tensor, radius: float) -> Iterator[None]:
    """Move ``values`` by radius g / |g| while the context lasts; then they are as before.

    >>> values = torch.tensor([1.0, 1.0])
    >>> with climbed(values, torch.tensor([3.0, 4.0]), 0.5):
    ...     print(values)
    tensor([1.3000, 1.4000])
    >>> values
    tensor([1., 1.])
    """
    before = values.clone()
    values.add_(gradient * (radius / (torch.linalg.vector_norm(gradient) + _TINY)))
    try:
        yield
    finally:  # also if the second pass fails: the guard may be off
        values.copy_(before)


def below_the_top(network: Network, sizes: list[int]) -> Tensor:
    """Return which affine parameters ``(P,)`` are trained: 1.0, or 0.0 in the topmost blocks.

    By the released codes' rule of names: ``layer4`` of a ResNet, blocks 9 to 11 of a ViT and the
    norm after them keep their source values. Other networks, such as those for 32 px images, have
    no such names, so all their layers learn; as do those of which nothing else would be left.

    Args:
        network: whose normalisation layers are asked for their names.
        sizes: of weight, bias, weight, ... in the order of the layers, as a branch lists them.
    """
    layers = network.body.named_modules()
    names = {layer.index: name for name, layer in layers if isinstance(layer, (Norm, OwnNorm))}
    last = len(names) - 1
    frozen = [
        any(word in names[i] for word in _TOP)
        or (i == last and names[i].rpartition(".")[2] == "norm")
        for i in range(len(names))
    ]
    if all(frozen):
        frozen = [False] * len(frozen)
    shares = [float(not frozen[i // 2]) for i in range(len(sizes))]
    parts = [
        torch.full((size,), share, dtype=torch.float32)
        for size, share in zip(sizes, shares, strict=True)
    ]
    return torch.cat(parts).to(network.device())
