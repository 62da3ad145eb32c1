"""ROID: self-training with certainty and diversity weights, tied to the source and to the prior.

Marsden, Döbler, Yang: Universal Test-time Adaptation through Weight Ensembling, Diversity
Weighting, and Prior Correction, WACV 2024. Numbers compared with the authors' released code
(mariodoebler/test-time-adaptation), the random view ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.methods.one_pass import OnePass
from multipool.ops import Group, View, symmetric_cross_entropy
from multipool.ops.likelihood import diversity_weights, prior_correction, soft_likelihood_ratio
from multipool.ops.masked import MaskedBatch
from multipool.ops.optimise import OPTIMIZERS, FlatOptimizer, step_where


@dataclass(frozen=True)
class ROIDConfig:
    """Defaults for CIFAR of the authors' released code (mariodoebler/test-time-adaptation)."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    source_pull: float = 0.01  # share of the source in the parameters after each step
    average_rate: float = 0.1  # share of the batch in each update of the average prediction
    temperature: float = 1 / 3
    batch_size: int = 64  # B0: divides the loss, also that of a smaller last batch

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of roid")


class ROID(OnePass):
    """Trains on the diverse half of a batch and on its view, then leans back to the source."""

    name = "roid"
    Config = ROIDConfig
    config: ROIDConfig

    def _build(self) -> None:
        super()._build()
        self.anchor = self.network.require_source(self.name)
        classes = self.setup.num_classes
        uniform = torch.full((classes,), 1 / classes, device=self.device)
        self.average = self._keep("average", uniform)
        self.view = View(reflect=True)

    def _make_optimizer(self, values: Tensor) -> FlatOptimizer:
        return OPTIMIZERS[self.config.optimizer](values, self.config.lr)

    def _update(self, images: Tensor) -> tuple[Tensor, ...]:
        # One draw serves the whole batch and adds no noise, so the view of the images that will
        # count is the same whether the others are in it or not.
        view = self.network.prepare(self.view(images, self._draws, self._noise))
        return self._train(images, view)

    def _train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step; a batch without spread (a single image) changes nothing (ours)."""
        logits = self._logits(images)
        with torch.no_grad():
            weights = diversity_weights(logits, self.average, self.config.temperature)  # (B,)
            mean = logits.softmax(dim=1).mean(dim=0)
        wanted, go = weights > 0, weights.any()
        # The gradient flows into both predictions.
        again = symmetric_cross_entropy(self._view_logits(more[0], wanted), logits)
        losses = torch.where(wanted, soft_likelihood_ratio(logits) + again, 0.0)
        loss = (weights * losses).sum() / self.config.batch_size
        step_where(self.optimizer, self._gradient(loss), go)
        with torch.no_grad():
            self.average.lerp_(mean, self.config.average_rate * go)
            self.student.affine.lerp_(self.anchor.affine, self.config.source_pull * go)
        return (loss.detach(), logits.detach())

    def _view_logits(self, view: Tensor, wanted: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` of the wanted views, normalised among themselves.

        A GPU runs all rows and masks the statistics, which a graph can hold; a CPU, where the
        size of a pass is its price, runs the wanted rows and leaves 0 for the others.
        """
        if view.is_cuda:
            return self.network.run(Group(view, self.student, MaskedBatch(wanted)))[0]
        rows = wanted.nonzero().squeeze(1)
        nothing = view.new_zeros(len(view), self.setup.num_classes)
        return nothing.index_copy(0, rows, self._logits(view[rows])) if len(rows) else nothing

    def _output(self, logits: Tensor) -> Tensor:
        return prior_correction(logits)
