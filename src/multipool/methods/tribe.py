"""TRIBE: three networks with class-balanced statistics, two of which share their parameters.

Su, Xu, Jia: Towards Real-World Test-Time Adaptation: Tri-Net Self-Training with Balanced
Normalization, AAAI 2024. Numbers compared with the authors' release (Gorilla-Lab-SCUT/TRIBE).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.engine import Context, Kept, Method, Prediction, Update, tensor_pass
from multipool.ops import Branch, FlatAdam, Group, LayerState, View, entropy, frozen
from multipool.ops.masked import masked_mean
from multipool.ops.moments import instance_moments, normalise
from multipool.ops.optimise import step_where


@dataclass(frozen=True)
class TRIBEConfig:
    """Published settings for CIFAR-100-C."""

    lr: float = 1e-3
    norm_rate: float = 0.05  # eta: a sample's share in the statistics of its class
    spread: float = 0.1  # gamma: the part of a class's movement that goes to all classes
    gate: float = 0.2  # H0: samples at or above this share of the largest entropy are left out
    anchor: float = 0.5  # lambda: weight of the squared distance to the source's logits
    skip_empty: bool = False  # take no step where no sample passes; the release lets momentum go on


class TRIBE(Method):
    """The auxiliary network predicts and stays near the source; the student learns from it.

    Statistics are kept for each class and averaged over classes, so that a run of one class
    does not take them over. A student learns from an auxiliary network that an anchor keeps
    near the source.

    Student and auxiliary share their parameters and differ in their statistics only; the source
    network keeps its parameters while its statistics move too.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`TRIBEConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "tribe")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Su, Xu, Jia: Towards Real-World Test-Time Adaptation: Tri-Net Self-Training with
        Balanced Normalization, AAAI 2024.
    """

    name = "tribe"
    needs_norm = "batchnorm"
    normalises_by = "kept"
    Config = TRIBEConfig
    view = View()

    def __init__(self, context: Context, config: TRIBEConfig) -> None:
        super().__init__(context, config)
        source = self.network.require_statistics(self.name)
        self.affine = source.copy(trainable=True)
        self.student = BalancedBranch(self.affine, self.num_classes)
        self.auxiliary = BalancedBranch(self.affine, self.num_classes)
        self.origin = BalancedBranch(source, self.num_classes)
        self.optimizer = FlatAdam(self.affine.affine, config.lr)

    def keeps(self) -> Kept:
        """Return the shared parameters, three networks' statistics and the optimiser's state."""
        return {
            "affine": self.affine.affine,
            "student": self.student,
            "auxiliary": self.auxiliary,
            "source": self.origin,
            "optimizer": self.optimizer,
        }

    def predict(self, images: Tensor) -> Prediction:
        """Return the auxiliary network's logits."""
        return Prediction(self._auxiliary_pass(images)[0])

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Learn from the whole batch, by the classes predicted."""
        yield partial(self._update, images, prediction.logits.argmax(dim=1))

    def _update(self, images: Tensor, labels: Tensor) -> Tensor:
        return self._train_pass(images, self.augmented(images), labels)[0]

    @tensor_pass
    def _auxiliary_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.network.run(Group(images, self.auxiliary, frozen)))

    @tensor_pass
    def _train_pass(self, images: Tensor, view: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Move all statistics by the predicted ``labels`` ``(B,)`` and take one step."""
        config, classes = self.config, self.num_classes
        policy = Balanced(labels, classes, config.norm_rate, config.spread)
        with torch.no_grad():
            (source,) = self.network.run(Group(images, self.origin, policy))
        (guide,) = self.network.run(Group(images, self.auxiliary, policy))
        (logits,) = self.network.run(Group(view, self.student, policy))
        kept = entropy(guide.detach()) < config.gate * math.log(classes)  # (B,)
        learned = F.cross_entropy(logits, guide.detach().argmax(dim=1), reduction="none")
        strayed = (guide - source).square().mean(dim=1)
        loss = masked_mean(learned + config.anchor * strayed, kept)
        gradient = self.affine.gradient(loss)
        if config.skip_empty:
            step_where(self.optimizer, gradient, kept.any())
        else:
            self.optimizer.step(gradient)
        return (loss.detach(),)


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
        moments = self.class_statistics.split(self.moment_sizes, dim=1)
        rows = zip(self.layers, owner.layers, moments[0::2], moments[1::2], strict=True)
        layers: list[LayerState] = [
            BalancedState(o.weight, o.bias, s.mean, s.var, s.eps, m, v) for s, o, m, v in rows
        ]
        self.layers = layers

    @property
    def state(self) -> dict[str, Tensor]:
        """What moves, by name; the affine parameters are the owner's."""
        return {"statistics": self.statistics, "class_statistics": self.class_statistics}


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
