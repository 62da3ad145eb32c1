"""RoTTA: robust statistics and a time-weighted mean teacher fed from memory.

Yuan, Xie, Li: Robust Test-Time Adaptation in Dynamic Scenarios, CVPR 2023. Numbers compared with
the authors' released code (BIT-DA/RoTTA).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.methods.memory_based import MemoryBased
from multipool.ops import Group, Robust, age_weight, soft_cross_entropy


@dataclass(frozen=True)
class RoTTAConfig:
    """Defaults of the authors' released code, the same on every dataset."""

    lr: float = 1e-3
    teacher_rate: float = 1e-3  # share of the student in each teacher update
    norm_rate: float = 0.05  # share of the memory batch in each statistics update
    update_every: int = 64  # samples, not batches
    samples: int = 64  # asked of the memory at each update


class RoTTA(MemoryBased):
    """The teacher predicts, the student learns from memory, the teacher follows slowly."""

    name = "rotta"
    Config = RoTTAConfig
    takes_memory: ClassVar[str | None] = "class-balanced"
    config: RoTTAConfig

    def _build(self) -> None:
        super()._build()
        self.robust = Robust(self.config.norm_rate)

    def _extra(self, stored: Retrieved) -> tuple[Tensor, ...]:
        assert self.memory is not None
        return (age_weight(stored.ages.float().to(self.device), self.memory.capacity),)

    def _train_pass(self, images: Tensor, view: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on RoTTA's loss: each sample's cross-entropy, weighted down by its age.

        Both networks run in train mode: robust statistics come from memory and never from the
        stream, whose batches hold too few classes. The teacher sees clean images, the student
        augmented ones, and each moves its own statistics.
        """
        (weights,) = more
        with torch.no_grad():
            (target,) = self.network.run(Group(images, self.teacher, self.robust))
        (logits,) = self.network.run(Group(view, self.student, self.robust))
        loss = (weights * soft_cross_entropy(logits, target.softmax(dim=1))).mean()
        self.optimizer.step(self.student.gradient(loss))
        self.teacher.affine.lerp_(self.student.affine, self.config.teacher_rate)
        return (loss.detach(),)
