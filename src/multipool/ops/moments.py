"""Per-instance moments, and the affine map that every normalisation ends in."""

from __future__ import annotations

import torch
from torch import Tensor

from multipool.ops.normalise import LayerState


def positions(x: Tensor) -> int:
    """Return how many values a channel of one instance has: 1 for ``(B, C)``.

    >>> positions(torch.zeros(2, 3, 4, 5))
    20
    """
    return x.numel() // (x.shape[0] * x.shape[1])


def instance_moments(x: Tensor, correction: int) -> tuple[Tensor, Tensor]:
    """Return mean and variance over space, ``(B, C, ...)`` to ``(B, C)`` each, float32.

    ``correction`` 1 is the unbiased variance, 0 the biased one; one position has variance 0.
    """
    x = x.float()
    if positions(x) == 1:
        return x.flatten(1), torch.zeros_like(x.flatten(1))
    var, mean = torch.var_mean(x, dim=tuple(range(2, x.ndim)), correction=correction)
    return mean, var


def normalise(x: Tensor, mean: Tensor, var: Tensor, state: LayerState) -> Tensor:
    """Return w (x - mean) / sqrt(var + eps) + b, with gradients through mean and var.

    ``mean`` and ``var`` are ``(C,)``, or ``(B, C)`` for statistics of each instance.
    """
    scale = state.weight * (var + state.eps).rsqrt()
    shift = state.bias - mean * scale
    shape = (-1, x.shape[1]) + (1,) * (x.ndim - 2)
    return torch.addcmul(shift.view(shape), x.float(), scale.view(shape)).to(x.dtype)
