"""Normalisation with the statistics of pools: for a whole batch, for each image, or on the move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.ops import Branch, fused
from multipool.ops.moments import instance_moments, normalise
from multipool.ops.normalise import LayerState, batch_moments, batch_norm


@dataclass(frozen=True)
class Layers:
    """What one pass knows about the normalisation layers, in the order of the network."""

    layers: Sequence[LayerState]


def with_statistics(branch: Branch, statistics: Tensor) -> Layers:
    """Return the layers of ``branch`` with other statistics, ``(S,)``, or ``(B, S)``: by image."""
    moments = statistics.split(branch.moment_sizes, dim=-1)
    return Layers(
        [
            LayerState(s.weight, s.bias, mean, var, s.eps)
            for s, mean, var in zip(branch.layers, moments[0::2], moments[1::2], strict=True)
        ]
    )


class EachImage:
    """Normalises each image with its own row of statistics, ``(B, C)``."""

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x``."""
        return normalise(x, state.mean, state.var, state)

    def moments(self, x: Tensor, state: LayerState) -> tuple[Tensor, Tensor]:
        """Return the rows of statistics."""
        return state.mean, state.var


@dataclass(frozen=True)
class Moving:
    """Move a pool's statistics towards these images', and normalise with them and the source's.

    ``layers`` hold the pool's own statistics and are changed in place; ``source`` the source's.
    The images are normalised by the mixture that the pool will have after the move.
    """

    source: dict[int, LayerState]  # by the place of the pool's own mean in storage
    shares: dict[int, Tensor]  # (), by the same: weight of the pool's own statistics
    rate: Tensor  # () weight of these images in them
    weights: Tensor | None = None  # (B,) of the images, summing to 1; None: all alike

    def __call__(self, x: Tensor, own: LayerState) -> Tensor:
        """Return the normalised ``x`` and move ``own.mean`` and ``own.var`` in place."""
        mean, var = batch_moments(x) if self.weights is None else weighted(x, self.weights)
        own.mean.lerp_(mean, self.rate)
        own.var.lerp_(var, self.rate)
        source = self.source[id(own)]
        mean, var = (torch.lerp(a, b, self.shares[id(own)]) for a, b in _pairs(source, own))
        return batch_norm(x, mean, var, own.weight, own.bias, eps=own.eps)

    def moments(self, x: Tensor, own: LayerState) -> tuple[Tensor, Tensor]:
        """Return what ``x`` is normalised by and move ``own.mean`` and ``own.var``, fused."""
        source, share = self.source[id(own)], self.shares[id(own)]
        return fused.moved(x, own, source, share, self.rate, self.weights)


def moving(
    branch: Branch, own: Tensor, shares: Tensor, rate: Tensor, weights: Tensor | None = None
) -> tuple[Layers, Moving]:
    """Return layers over the pool's statistics ``own`` ``(S,)`` and the policy that moves them.

    ``shares`` ``(N,)`` are the weights of its statistics, layer by layer.
    """
    layers = with_statistics(branch, own)
    source = {id(ours): s for ours, s in zip(layers.layers, branch.layers, strict=True)}
    weight = {id(ours): one for ours, one in zip(layers.layers, shares, strict=True)}
    return layers, Moving(source, weight, rate, weights)


def weighted(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance per channel, ``(C,)`` each, of weighted images."""
    means, variances = instance_moments(x, 0)  # (B, C)
    mean = weights @ means
    return mean, weights @ (variances + (means - mean).square())


def _pairs(source: LayerState, own: LayerState) -> list[tuple[Tensor, Tensor]]:
    return [(source.mean, own.mean), (source.var, own.var)]
