"""ResiTTA: statistics softly pulled back to the source, and a bank of confident samples.

Zhou et al., Resilient Practical Test-Time Adaptation (arXiv 2401.14619; ICASSP 2025). As in the
authors' release, whose settings are published for ImageNet-C only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from multipool.methods.memory_based import MemoryBased
from multipool.ops import Group, Residual, soft_cross_entropy


@dataclass(frozen=True)
class ResiTTAConfig:
    """Defaults for CIFAR, ours: those of the release but for ``lr``, which is 1e-6 there."""

    lr: float = 1e-3
    teacher_rate: float = 1e-3  # share of the student in each teacher update
    norm_rate: float = 0.05  # share of the memory batch in each statistics update
    statistics_pull: float = 0.05  # lambda_d: a step on W2^2 to the source after each update
    affine_pull: float = 0.0  # lambda_w: weight of ||w - w_0||^2 + ||b - b_0||^2 in the loss
    gate: float = 0.4  # samples at or above this share of the largest entropy are not stored
    update_every: int = 64  # samples, not batches
    samples: int = 64  # asked of the memory at each update


class ResiTTA(MemoryBased):
    """RoTTA's loop without age weights, with an entropy gate and resilient statistics."""

    name = "resitta"
    Config = ResiTTAConfig
    takes_memory: ClassVar[str | None] = "entropy"
    config: ResiTTAConfig

    def _build(self) -> None:
        super()._build()
        self.residual = Residual(self.config.norm_rate)
        self.anchor = self.network.require_source(self.name)

    def _remember(
        self, images: Tensor, labels: Tensor, doubt: Tensor, features: list[Tensor], piece: slice
    ) -> None:
        """Store what is confident enough; the rest does not even count as time passing."""
        limit = self.config.gate * math.log(self.setup.num_classes)
        rows = (~(doubt >= limit)).nonzero().squeeze(1)  # what is no number the bank refuses
        if len(rows) > 0:
            features = [f[piece][rows] for f in features]
            everything = slice(None)
            super()._remember(images[rows], labels[rows], doubt[rows], features, everything)

    def _train_pass(self, images: Tensor, view: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the mean cross-entropy, then pull both networks' statistics back."""
        with torch.no_grad():
            (target,) = self.network.run(Group(images, self.teacher, self.residual))
        (logits,) = self.network.run(Group(view, self.student, self.residual))
        loss = soft_cross_entropy(logits, target.softmax(dim=1)).mean()
        gradient = self.student.gradient(loss)
        if self.config.affine_pull:
            gap = self.student.affine - self.anchor.affine
            gradient = gradient + 2 * self.config.affine_pull * gap
            loss = loss + self.config.affine_pull * gap.square().sum()
        self.optimizer.step(gradient)
        self.student.align(self.anchor, self.config.statistics_pull)
        self.teacher.align(self.anchor, self.config.statistics_pull)
        self.teacher.affine.lerp_(self.student.affine, self.config.teacher_rate)
        return (loss.detach(),)
