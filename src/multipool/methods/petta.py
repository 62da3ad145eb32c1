"""PeTTA: a mean teacher that senses how far it has drifted and holds itself back.

Hoang, Vo, Do: Persistent Test-time Adaptation in Recurring Testing Scenarios, NeurIPS 2024.
Numbers compared with the authors' released code (hthieu166/petta).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.methods.memory_based import MemoryBased
from multipool.methods.statistics import SourceStatistics, obtain
from multipool.ops import (
    PULLS,
    Cuts,
    Group,
    Robust,
    class_means,
    frozen,
    soft_cross_entropy,
    symmetric_cross_entropy,
    uncertainty,
)

LOSSES = ("sce", "ce")


@dataclass(frozen=True)
class PeTTAConfig:
    """Defaults of the authors' released code for CIFAR; ImageNet-C and DomainNet use ``ce``."""

    lr: float = 1e-3
    teacher_rate: float = 1e-3  # alpha_0: share of the student in each teacher update, undrifted
    norm_rate: float = 0.05  # share of the memory batch in each statistics update
    pull: float = 10.0  # lambda_0: weight of the regulariser at full divergence
    regulariser: str = "cosine"  # cosine, l2 or none
    anchor: float = 1.0  # weight of the cross-entropy to the source network
    loss: str = "sce"  # sce: symmetric, clean and augmented; ce: plain, augmented
    prototype_rate: float = 0.05  # share of the batch in each prototype update
    update_every: int = 64  # samples, not batches
    samples: int = 64  # asked of the memory at each update

    def __post_init__(self) -> None:
        lookup(dict.fromkeys(LOSSES), self.loss, "loss of petta")
        lookup(PULLS, self.regulariser, "regulariser of petta")


def divergence(prototypes: Tensor, present: Tensor, source: SourceStatistics) -> Tensor:
    """Return gamma_t = 1 - exp(-mean squared, variance-scaled drift of the classes present).

    ``prototypes`` is ``(L, D)``, ``present`` ``(L,)`` bool; pooled over classes and dimensions as
    in the released code (the paper describes class-wise scores).
    """
    scaled = (prototypes - source.mean).square() / (source.var + 1e-6)  # (L, D)
    drift = scaled.mean(dim=1) @ present.to(scaled.dtype) / present.sum().clamp_min(1)
    return 1 - torch.exp(-drift)


class PeTTA(MemoryBased):
    """RoTTA's machinery plus a divergence that raises the pull to source and slows the teacher."""

    name = "petta"
    Config = PeTTAConfig
    takes_memory: ClassVar[str | None] = "class-balanced"
    needs_source: ClassVar[bool] = True
    config: PeTTAConfig

    def _build(self) -> None:
        super()._build()
        source = self.network.require_source(self.name)
        # The init network keeps the source's affine parameters; its statistics adapt.
        self.init = source.copy()
        self._keep("init.statistics", self.init.statistics)
        self.robust = Robust(self.config.norm_rate)
        self.pull = PULLS[self.config.regulariser]
        self.cuts = Cuts(self.init.sizes, self.device)
        self.source = obtain(self.network, self.setup.source, self.setup.num_classes, self.name)
        self._keep("statistics.mean", self.source.mean)
        self._keep("statistics.var", self.source.var)
        self._keep("statistics.counts", self.source.counts)
        classes, width = self.source.mean.shape
        self.prototypes = self._keep("prototypes", self.source.mean.clone())
        # Features of the samples since the last update, by predicted class.
        zeros = self.source.mean.new_zeros
        self.pending = self._keep("pending.sum", zeros(classes, width))
        self.pending_count = self._keep("pending.count", zeros(classes))

    def _teacher_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        (logits,) = self.network.run(Group(images, self.teacher, frozen))
        return (logits, logits.argmax(dim=1), uncertainty(logits), self.network.features())

    def _remember(
        self, images: Tensor, labels: Tensor, doubt: Tensor, features: list[Tensor], piece: slice
    ) -> None:
        means, counts = class_means(features[0][piece], labels, self.setup.num_classes)
        self.pending += means * counts[:, None]
        self.pending_count += counts
        super()._remember(images, labels, doubt, features, piece)

    def _train_pass(self, images: Tensor, view: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on L = L_cls + lambda_t R + L_al and let the teacher follow by alpha_t."""
        drift = self._sense()
        loss, gradient = self._classify(images, view)
        penalty, slope = self.pull(self.student.affine, self.init.affine, self.cuts)
        self.optimizer.step(gradient + self.config.pull * drift * slope)
        rate = (1 - drift) * self.config.teacher_rate
        self.teacher.affine.lerp_(self.student.affine, rate)
        return (loss + self.config.pull * drift * penalty, drift)

    def _classify(self, images: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        """Return L_cls plus the anchor loss, and its gradient; moves all three's statistics.

        The student sees the clean images first and the view second, starting from the statistics
        of the first: also under ``ce``, whose loss ignores the clean ones. The loss is a sum of a
        part of each, so each has a backward of its own: the activations of the first are gone
        before the second needs room for its own.
        """
        clean = Group(images, self.student, self.robust)
        augmented = Group(view, self.student, self.robust)
        with torch.no_grad():
            teacher, init = (Group(images, b, self.robust) for b in (self.teacher, self.init))
            target, anchor = self._run(teacher, init)
            if self.config.loss == "ce":
                self._run(clean)
        if self.config.loss == "ce":
            loss = self._view_loss(self._run(augmented)[0], target, anchor)
            return loss.detach(), self.student.gradient(loss)
        if self.setup.grouped:
            z_clean, z_view = self.network.run(clean, augmented)
            loss = self._clean_loss(z_clean, target) + self._view_loss(z_view, target, anchor)
            return loss.detach(), self.student.gradient(loss)
        first = self._clean_loss(self._run(clean)[0], target)
        gradient = self.student.gradient(first)
        second = self._view_loss(self._run(augmented)[0], target, anchor)
        return (first + second).detach(), gradient + self.student.gradient(second)

    def _clean_loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the part of L_cls that the student's clean logits ``(M, L)`` have."""
        return symmetric_cross_entropy(logits, target).mean() / 2

    def _view_loss(self, logits: Tensor, target: Tensor, anchor: Tensor) -> Tensor:
        """Return the view's part of L_cls, and the anchor loss."""
        if self.config.loss == "ce":
            losses = soft_cross_entropy(logits, target.softmax(dim=1))
        else:
            losses = symmetric_cross_entropy(logits, target) / 2
        held = soft_cross_entropy(logits, anchor.softmax(dim=1))
        return (losses + self.config.anchor * held).mean()

    @torch.no_grad()
    def _sense(self) -> Tensor:
        """Return gamma_t from the old prototypes, then move them to the samples just seen."""
        present = self.pending_count > 0
        drift = divergence(self.prototypes, present, self.source)
        means = self.pending / self.pending_count.clamp_min(1)[:, None]
        moved = self.prototypes.lerp(means, self.config.prototype_rate)
        self.prototypes.copy_(torch.where(present[:, None], moved, self.prototypes))
        self.pending.zero_()
        self.pending_count.zero_()
        return drift
