"""TRIBE's balanced normalisation: statistics per class, averaged over classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.ops.branch import Branch
from multipool.ops.moments import instance_moments, normalise
from multipool.ops.normalise import LayerState


@dataclass(frozen=True)
class BalancedState(LayerState):
    """A layer that also knows each class's statistics; ``mean`` and ``var`` are their balance."""

    class_mean: Tensor  # (L, C)
    class_var: Tensor  # (L, C)


class BalancedBranch(Branch):
    """Class-wise statistics of its own over affine parameters that it shares with ``owner``.

    ``class_statistics`` is ``(L, P)``, one row a class, each starting as the owner's statistics.
    """

    def __init__(self, owner: Branch, num_classes: int) -> None:
        super().__init__(owner.layers)
        self.affine, self.leaves = owner.affine, owner.leaves
        self.class_statistics = self.statistics.repeat(num_classes, 1)
        moments = self.class_statistics.split(self.sizes, dim=1)
        rows = zip(self.layers, owner.layers, moments[0::2], moments[1::2], strict=True)
        layers: list[LayerState] = [
            BalancedState(o.weight, o.bias, s.mean, s.var, s.eps, m, v) for s, o, m, v in rows
        ]
        self.layers = layers


class Balanced:
    """Moves class statistics by the samples of each class, and normalises by their balance.

    Su et al., AAAI 2024 (TRIBE), Sec. 3.2, for one batch with labels ``(B,)``. ``rate`` is η, a
    sample's share in its class's statistics; ``share`` is γ, the part of each class's movement
    that goes to all classes. Gradients flow through this batch's contribution. The policy is
    made once a batch and serves every layer. To evaluate, use ``frozen``.
    """

    def __init__(self, labels: Tensor, num_classes: int, rate: float, share: float) -> None:
        self.labels, self.share = labels, share
        classes = torch.arange(num_classes, device=labels.device)
        self.members = (classes[:, None] == labels).float()  # (L, B)
        counts = self.members.sum(dim=1, keepdim=True)  # (L, 1)
        # Never more than all of a class: beyond 1/η samples each counts for less.
        self.step = torch.where(counts <= 1 / rate, rate, 1 / counts.clamp_min(1))
        self.weight = self.step * counts  # (L, 1): how much of a class is replaced
        self.present = (counts > 0).sum()

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x`` and move all statistics of ``state`` in place."""
        assert isinstance(state, BalancedState)  # the branch says so
        own_mean, own_var = instance_moments(x, correction=0)  # (B, C) each
        gap = own_mean - state.class_mean[self.labels]
        # Around the old class mean: sums of squares of x itself would cancel badly.
        moved = self.step * (self.members @ gap)  # (L, C): δ, 0 for absent classes
        spread = self.step * (self.members @ (own_var + gap.square())) - moved.square()
        mean = state.class_mean + (1 - self.share) * moved
        var = state.class_var + (1 - self.share) * (spread - self.weight * state.class_var)
        if self.share > 0:
            mean = mean + self.share * moved.sum(dim=0) / self.present
            pull = spread.sum(dim=0) - self.weight.sum() * var
            var = var + self.share * pull / self.present
        balance = mean.mean(dim=0)
        total = var.mean(dim=0) + mean.var(dim=0, correction=1)
        with torch.no_grad():
            state.class_mean.copy_(mean)
            state.class_var.copy_(var)
            state.mean.copy_(balance)
            state.var.copy_(total)
        return normalise(x, balance, total, state)
