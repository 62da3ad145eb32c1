"""RoTTA: robust statistics and a time-weighted mean teacher fed from memory.

Yuan, Xie, Li: Robust Test-Time Adaptation in Dynamic Scenarios, CVPR 2023. Numbers compared with
the authors' released code (BIT-DA/RoTTA).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.engine import Context, FromMemory, Kept, tensor_pass
from multipool.ops import FlatAdam, Group, Robust, View, frozen, soft_cross_entropy
from multipool.ops.padding import mean_of


@dataclass(frozen=True)
class RoTTAConfig:
    """Defaults of the authors' released code, the same on every dataset."""

    lr: float = 1e-3
    teacher_rate: float = 1e-3  # share of the student in each teacher update
    norm_rate: float = 0.05  # share of the memory batch in each statistics update
    update_every: int = 64  # samples, not batches
    samples: int = 64  # asked of the memory at each update


class RoTTA(FromMemory):
    """The teacher predicts, the student learns from memory, the teacher follows slowly.

    Statistics and learning come from a memory that is balanced over predicted classes and
    prefers new, certain samples. The student learns the teacher's answers to a random view, old
    samples count less, and the teacher follows slowly.

    Where layers keep no statistics, as LayerNorm, none move; memory, teacher and loss are the same.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`RoTTAConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "rotta")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Yuan, Xie, Li: Robust Test-Time Adaptation in Dynamic Scenarios, CVPR 2023.
    """

    name = "rotta"
    Config = RoTTAConfig
    fuses = True
    takes_memory = "class-balanced"
    view = View()

    def __init__(self, context: Context, config: RoTTAConfig) -> None:
        super().__init__(context, config)
        source = self.network.require_source(self.name)
        self.student, self.teacher = source.copy(trainable=True), source.copy()
        self.optimizer = FlatAdam(self.student.affine, config.lr)
        self.robust = Robust(config.norm_rate)

    def keeps(self) -> Kept:
        """Return both networks' parameters and statistics, and the optimiser's state."""
        return {"student": self.student, "teacher": self.teacher, "optimizer": self.optimizer}

    def logits(self, images: Tensor) -> Tensor:
        """Return the teacher's eval-mode logits."""
        return self.network.run(Group(images, self.teacher, frozen))[0]

    def update(self, stored: Retrieved) -> Tensor:
        """Take one step on stored samples, weighted by their age."""
        images = self.images_of(stored)
        view = self.augmented(images)
        weights = age_weight(stored.ages.float().to(self.device), self.bank.capacity)
        return self._train_pass(*self.filled(images, view, weights))[0]

    @tensor_pass
    def _train_pass(
        self, images: Tensor, view: Tensor, weights: Tensor, rows: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Take one step on RoTTA's loss: each sample's cross-entropy, weighted down by its age.

        Both networks run in train mode: robust statistics come from memory and never from the
        stream, whose batches hold too few classes. The teacher sees clean images, the student
        augmented ones, and each moves its own statistics. ``rows``: those that count.
        """
        robust = replace(self.robust, rows=rows)
        with torch.no_grad():
            (target,) = self.network.run(Group(images, self.teacher, robust))
        (logits,) = self.network.run(Group(view, self.student, robust))
        loss = mean_of(weights * soft_cross_entropy(logits, target.softmax(dim=1)), rows)
        self.optimizer.step(self.student.gradient(loss))
        self.teacher.affine.lerp_(self.student.affine, self.config.teacher_rate)
        return (loss.detach(),)


def age_weight(ages: Tensor, capacity: int) -> Tensor:
    """Return the timeliness weight exp(-a) / (1 + exp(-a)) of ``a = ages / capacity``.

    >>> age_weight(torch.tensor([0, 64]), 64).round(decimals=4)
    tensor([0.5000, 0.2689])
    """
    return torch.sigmoid(-ages / capacity)
