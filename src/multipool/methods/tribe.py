"""TRIBE: three networks with class-balanced statistics, two of which share their parameters.

Su, Xu, Jia: Towards Real-World Test-Time Adaptation: Tri-Net Self-Training with Balanced
Normalization, AAAI 2024. Numbers compared with the authors' release (Gorilla-Lab-SCUT/TRIBE).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.methods.adapter import Adapter
from multipool.ops import FlatAdam, Graphed, Group, View, entropy, frozen
from multipool.ops.balanced import Balanced, BalancedBranch
from multipool.ops.masked import masked_mean
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


class TRIBE(Adapter):
    """The auxiliary network predicts and stays near the source; the student learns from it.

    Student and auxiliary share their parameters and differ in their statistics only; the source
    network keeps its parameters while its statistics move too.
    """

    name = "tribe"
    Config = TRIBEConfig
    config: TRIBEConfig

    def _build(self) -> None:
        source = self.network.require_source(self.name)
        classes = self.setup.num_classes
        self.affine = source.copy(trainable=True)
        self.student = BalancedBranch(self.affine, classes)
        self.auxiliary = BalancedBranch(self.affine, classes)
        self.source = BalancedBranch(source, classes)
        self.optimizer = FlatAdam(self.affine.affine, self.config.lr)
        self._keep("affine", self.affine.affine)
        for name in ("student", "auxiliary", "source"):
            branch = getattr(self, name)
            self._keep(f"{name}.statistics", branch.statistics)
            self._keep(f"{name}.class_statistics", branch.class_statistics)
        for name, tensor in self.optimizer.state.items():
            self._keep(f"optimizer.{name}", tensor)
        self.view = View()
        self._look = Graphed(self._auxiliary_pass, enabled=self.setup.graphs)
        self._train = Graphed(self._train_pass, enabled=self.setup.graphs)

    def _predict(self, images: Tensor) -> Tensor:
        return self._look(images)[0].clone()

    def _adapt(self, images: Tensor, logits: Tensor) -> None:
        self._learn(lambda: self._update(images, logits.argmax(dim=1)))
        self._numbers["seen"] += len(images)

    def _update(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            view = self.network.prepare(self.view(images, self._draws, self._noise))
        return self._train(images, view, labels)[0]

    def _auxiliary_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.network.run(Group(images, self.auxiliary, frozen)))

    def _train_pass(self, images: Tensor, view: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Move all statistics by the predicted ``labels`` ``(B,)`` and take one step."""
        config, classes = self.config, self.setup.num_classes
        policy = Balanced(labels, classes, config.norm_rate, config.spread)
        with torch.no_grad():
            (source,) = self.network.run(Group(images, self.source, policy))
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
