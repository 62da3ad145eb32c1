"""ROID: self-training with certainty and diversity weights, tied to the source and to the prior.

Marsden, Döbler, Yang: Universal Test-time Adaptation through Weight Ensembling, Diversity
Weighting, and Prior Correction, WACV 2024.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.methods.one_pass import OnePass
from multipool.ops import View, symmetric_cross_entropy
from multipool.ops.likelihood import diversity_weights, prior_correction, soft_likelihood_ratio
from multipool.ops.optimise import OPTIMIZERS, FlatOptimizer


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
        """Take one step; a batch without spread (a single image) changes nothing (ours).

        The images that count are picked out for the second pass, which therefore has no fixed
        size and no graph: half the work is saved instead.
        """
        logits = self._logits(images)
        with torch.no_grad():
            weights = diversity_weights(logits, self.average, self.config.temperature)  # (B,)
            rows = weights.nonzero().squeeze(1)
        if len(rows) == 0:
            return (logits.new_zeros(()), logits.detach())
        with torch.no_grad():
            view = self.view(images[rows], self._draws, self._noise)
            self.average.lerp_(logits.softmax(dim=1).mean(dim=0), self.config.average_rate)
        losses = soft_likelihood_ratio(logits[rows])
        # The gradient flows into both predictions.
        again = self._logits(self.network.prepare(view))
        losses = losses + symmetric_cross_entropy(again, logits[rows])
        loss = (weights[rows] * losses).sum() / self.config.batch_size
        self.optimizer.step(self._gradient(loss))
        self.student.affine.lerp_(self.anchor.affine, self.config.source_pull)
        return (loss.detach(), logits.detach())

    def _output(self, logits: Tensor) -> Tensor:
        return prior_correction(logits)
