"""MECTA: normalisation that forgets by surprise and learns sparsely, under EATA.

Hong et al., MECTA: Memory-Economic Continual Test-Time Model Adaptation, ICLR 2023. The paper puts
its layer under several methods; EATA, the example of its release, is our choice. Numbers
compared with that release (SonyResearch/MECTA), whose Fisher pass also moves the statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.methods.eata import EATA
from multipool.ops import Group
from multipool.ops.forgetting import Forgetting
from multipool.ops.optimise import FlatOptimizer, FlatSGD


@dataclass(frozen=True)
class MECTAConfig:
    """Defaults for CIFAR-100-C of the authors' released code (SonyResearch/MECTA)."""

    lr: float = 1e-4  # of SGD with momentum 0.9, without Nesterov's step
    threshold: float = 0.0025  # of the forget rate, below which a layer has settled
    pruned: float = 0.7  # q: share of channels without a cache in each pass
    entropy_margin: float = 0.4  # E0 as a share of ln L: samples above are unreliable
    redundancy: float = 0.05  # d: samples at or above this cosine to the average are redundant
    fisher_weight: float = 2000.0  # beta
    fisher_images: int = 2000  # of the source, the first ones
    fisher_batch: int = 64  # images in each squared gradient: the size of the test batches

    def __post_init__(self) -> None:
        if not 0 <= self.pruned < 1:
            raise ValueError(f"pruned must be a share from 0 to below 1, got {self.pruned}")


class MECTA(EATA):
    """EATA over layers whose statistics move as fast as the stream surprises them."""

    name = "mecta"
    Config = MECTAConfig
    config: MECTAConfig  # type: ignore[assignment]

    def _build(self) -> None:
        super()._build()
        self._keep("student.statistics", self.student.statistics)
        self.norm = Forgetting(self.student, self.config.threshold, self.config.pruned)

    def _make_optimizer(self, values: Tensor) -> FlatOptimizer:
        return FlatSGD(values, self.config.lr, nesterov=False)

    def _update(self, images: Tensor) -> tuple[Tensor, ...]:
        scores = torch.rand(self.norm.count, generator=self._noise, device=self.device)
        return self._train(images, scores)

    def _train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        self.norm.begin(more[0])
        return super()._train_pass(images)

    def _logits(self, images: Tensor) -> Tensor:
        """Return the logits; only a pass that learns moves the statistics."""
        policy = self.norm if torch.is_grad_enabled() else self.norm.peek
        return self.network.run(Group(images, self.student, policy))[0]

    def _moving(self, passed: Tensor) -> Tensor:
        """Hold still what settled layers own, as an optimiser does that finds no gradient."""
        return self.norm.learning() & passed.any()
