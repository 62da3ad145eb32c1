"""PeTTA: a mean teacher that senses how far it has drifted and holds itself back.

Hoang, Vo, Do: Persistent Test-time Adaptation in Recurring Testing Scenarios, NeurIPS 2024.
Numbers compared with the authors' released code (hthieu166/petta).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from multipool.core import Retrieved, lookup
from multipool.engine import Context, FromMemory, Kept, Prediction, tensor_pass
from multipool.engine.statistics import SourceStatistics
from multipool.ops import (
    FlatAdam,
    Group,
    Robust,
    View,
    class_means,
    frozen,
    soft_cross_entropy,
    symmetric_cross_entropy,
)
from multipool.ops.padding import mean_of

LOSSES = ("sce", "ce")
_TINY = 1e-8  # the usual guard of a cosine: a zero vector has cosine 0


class Cuts:
    """Where a flat vector ``(P,)`` is cut into n tensors.

    PeTTA counts tensors, not values, so a small layer weighs as much as a large one.
    """

    def __init__(self, sizes: Sequence[int], device: torch.device | str = "cpu") -> None:
        sizes = [size for size in sizes if size > 0]  # a layer without a shift has none to count
        self.count = len(sizes)
        self.lengths = torch.tensor(sizes, device=device)  # (n,)
        owners = torch.repeat_interleave(torch.tensor(sizes))
        self.owner = owners.to(device)  # (P,): the tensor each value belongs to

    def sums(self, values: Tensor) -> Tensor:
        """Return each tensor's sum, ``(P,)`` to ``(n,)``, in the same order every time."""
        return torch.segment_reduce(values, "sum", lengths=self.lengths, unsafe=True)

    def spread(self, numbers: Tensor) -> Tensor:
        """Return each tensor's number at all its values, ``(n,)`` to ``(P,)``."""
        return numbers[self.owner]


def cosine_pull(values: Tensor, anchor: Tensor, cuts: Cuts) -> tuple[Tensor, Tensor]:
    """Return R = -(1/n) sum_i cos(v_i, a_i) over n tensors, and dR/dvalues ``(P,)``.

    >>> value, _ = cosine_pull(
    ...     torch.tensor([3.0, 4.0, 2.0, 0.0]), torch.tensor([3.0, 4.0, 0.0, 1.0]), Cuts([2, 2])
    ... )
    >>> float(value)  # cosines 1 and 0
    -0.5
    """
    square = cuts.sums(values * values)  # (n,)
    norms = (
        square.clamp_min(_TINY**2).sqrt() * cuts.sums(anchor * anchor).clamp_min(_TINY**2).sqrt()
    )
    cosine = cuts.sums(values * anchor) / norms
    away = torch.where(square > _TINY**2, cosine / square, torch.zeros_like(cosine))
    gradient = values * cuts.spread(away) - anchor * cuts.spread(1 / norms)
    return -cosine.mean(), gradient / cuts.count


def squared_pull(values: Tensor, anchor: Tensor, cuts: Cuts) -> tuple[Tensor, Tensor]:
    """Return (1/n) sum_i ||v_i - a_i||^2 over n tensors, and its gradient ``(P,)``."""
    gap = values - anchor
    return gap.square().sum() / cuts.count, 2 * gap / cuts.count


def no_pull(values: Tensor, anchor: Tensor, cuts: Cuts) -> tuple[Tensor, Tensor]:
    """Return zero and a zero gradient."""
    return values.new_zeros(()), torch.zeros_like(values)


PULLS = {"cosine": cosine_pull, "l2": squared_pull, "none": no_pull}


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


class PeTTA(FromMemory):
    """RoTTA's machinery plus a divergence that raises the pull to source and slows the teacher.

    RoTTA with a sense of drift: the farther the features of the predicted classes are from the
    source's, the more it is pulled back to the source and the slower its teacher follows.

    Where layers keep no statistics none move; the init network is then the source model.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`PeTTAConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, source_batches, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "petta", source=source_batches())
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Hoang, Vo, Do: Persistent Test-time Adaptation in Recurring Testing Scenarios,
        NeurIPS 2024.
    """

    name = "petta"
    Config = PeTTAConfig
    fuses = True
    takes_memory = "class-balanced"
    needs_source = True
    reads_features = True
    view = View()

    def __init__(self, context: Context, config: PeTTAConfig) -> None:
        super().__init__(context, config)
        source = self.network.require_source(self.name)
        self.student, self.teacher = source.copy(trainable=True), source.copy()
        self.optimizer = FlatAdam(self.student.affine, config.lr)
        # The init network keeps the source's affine parameters; its statistics adapt.
        self.init = source.copy()
        self.robust = Robust(config.norm_rate)
        self.pull, self.cuts = PULLS[config.regulariser], Cuts(self.init.sizes, self.device)
        self.statistics = self.source.statistics()
        self.prototypes = self.statistics.mean.clone()  # (L, D)
        # Features of the samples since the last update, by predicted class.
        self.pending = torch.zeros_like(self.prototypes)
        self.pending_count = self.prototypes.new_zeros(self.num_classes)

    def keeps(self) -> Kept:
        """Return three networks, the optimiser's state, the source's and our own class means."""
        moving = {"init.statistics": self.init.statistics} if self.init.has_statistics else {}
        return {
            "student": self.student,
            "teacher": self.teacher,
            **moving,
            "optimizer": self.optimizer,
            "statistics": self.statistics,
            "prototypes": self.prototypes,
            "pending.sum": self.pending,
            "pending.count": self.pending_count,
        }

    def logits(self, images: Tensor) -> Tensor:
        """Return the teacher's eval-mode logits."""
        return self.network.run(Group(images, self.teacher, frozen))[0]

    def remember(self, images: Tensor, prediction: Prediction) -> None:
        """Store the samples, and add their features to those of their classes."""
        assert prediction.features is not None
        assert prediction.labels is not None
        labels = prediction.labels.to(prediction.features.device)  # a decoder's are on the host
        means, counts = class_means(prediction.features, labels, self.num_classes)
        self.pending += means * counts[:, None]
        self.pending_count += counts
        super().remember(images, prediction)

    def update(self, stored: Retrieved) -> Tensor:
        """Take one step on stored samples and a view of them."""
        images = self.images_of(stored)
        return self._train_pass(*self.filled(images, self.augmented(images)))[0]

    @tensor_pass
    def _train_pass(
        self, images: Tensor, view: Tensor, rows: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Take one step on L = L_cls + lambda_t R + L_al and let the teacher follow by alpha_t."""
        drift = self._sense()
        loss, gradient = self._classify(images, view, rows)
        penalty, slope = self.pull(self.student.affine, self.init.affine, self.cuts)
        self.optimizer.step(gradient + self.config.pull * drift * slope)
        rate = (1 - drift) * self.config.teacher_rate
        self.teacher.affine.lerp_(self.student.affine, rate)
        return (loss + self.config.pull * drift * penalty, drift)

    def _classify(self, images: Tensor, view: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return L_cls plus the anchor loss, and its gradient; moves all three's statistics.

        The student sees the clean images first and the view second, starting from the statistics
        of the first: also under ``ce``, whose loss ignores the clean ones. The loss is a sum of a
        part of each, so each has a backward of its own: the activations of the first are gone
        before the second needs room for its own. ``rows``: those that count.
        """
        robust = replace(self.robust, rows=rows)
        clean, augmented = (Group(x, self.student, robust) for x in (images, view))
        with torch.no_grad():
            (target,) = self.network.run(Group(images, self.teacher, robust))
            (anchor,) = self.network.run(Group(images, self.init, robust))
            if self.config.loss == "ce":
                self.network.run(clean)
        if self.config.loss == "ce":
            loss = self._view_loss(self.network.run(augmented)[0], target, anchor, rows)
            return loss.detach(), self.student.gradient(loss)
        logits = self.network.run(clean)[0]
        first = mean_of(symmetric_cross_entropy(logits, target), rows) / 2
        gradient = self.student.gradient(first)
        second = self._view_loss(self.network.run(augmented)[0], target, anchor, rows)
        return (first + second).detach(), gradient + self.student.gradient(second)

    def _view_loss(
        self, logits: Tensor, target: Tensor, anchor: Tensor, rows: Tensor | None
    ) -> Tensor:
        """Return the view's part of L_cls, and the anchor loss."""
        if self.config.loss == "ce":
            losses = soft_cross_entropy(logits, target.softmax(dim=1))
        else:
            losses = symmetric_cross_entropy(logits, target) / 2
        held = soft_cross_entropy(logits, anchor.softmax(dim=1))
        return mean_of(losses + self.config.anchor * held, rows)

    @torch.no_grad()
    def _sense(self) -> Tensor:
        """Return gamma_t from the old prototypes, then move them to the samples just seen."""
        present = self.pending_count > 0
        drift = divergence(self.prototypes, present, self.statistics)
        means = self.pending / self.pending_count.clamp_min(1)[:, None]
        moved = self.prototypes.lerp(means, self.config.prototype_rate)
        self.prototypes.copy_(torch.where(present[:, None], moved, self.prototypes))
        self.pending.zero_()
        self.pending_count.zero_()
        return drift
