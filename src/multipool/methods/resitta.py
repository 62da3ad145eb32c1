"""ResiTTA: statistics softly pulled back to the source, and a bank of confident samples.

Zhou et al., Resilient Practical Test-Time Adaptation (arXiv 2401.14619; ICASSP 2025). As in the
authors' release, whose settings are published for ImageNet-C only; compared with that release on
CIFAR-10-C: equal predictions but for the ε that it leaves in the variances it pulls back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.engine import Context, FromMemory, Kept, Prediction, tensor_pass
from multipool.ops import Branch, FlatAdam, Group, LayerState, View, frozen, soft_cross_entropy
from multipool.ops.normalise import Mix, batch_norm, move_statistics
from multipool.ops.padding import mean_of


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


class ResiTTA(FromMemory):
    """RoTTA's loop without age weights, with an entropy gate and resilient statistics.

    Statistics are pulled softly back to the source's, and only certain samples enter the memory
    that the student learns from.

    Where layers keep no statistics there are none to pull back; gate, memory and loss are the same.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`ResiTTAConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "resitta")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Zhou et al., Resilient Practical Test-Time Adaptation (arXiv 2401.14619; ICASSP
        2025).
    """

    name = "resitta"
    Config = ResiTTAConfig
    fuses = True
    takes_memory = "entropy"
    view = View()

    def __init__(self, context: Context, config: ResiTTAConfig) -> None:
        super().__init__(context, config)
        source = self.network.require_source(self.name)
        self.student, self.teacher = source.copy(trainable=True), source.copy()
        self.optimizer = FlatAdam(self.student.affine, config.lr)
        self.anchor = source
        self.residual, self.alignment = Residual(config.norm_rate), Alignment(source)

    def keeps(self) -> Kept:
        """Return both networks' parameters and statistics, and the optimiser's state."""
        return {"student": self.student, "teacher": self.teacher, "optimizer": self.optimizer}

    def logits(self, images: Tensor) -> Tensor:
        """Return the teacher's eval-mode logits."""
        return self.network.run(Group(images, self.teacher, frozen))[0]

    def remember(self, images: Tensor, prediction: Prediction) -> None:
        """Store what is confident enough; the rest does not even count as time passing."""
        assert prediction.doubt is not None
        limit = self.config.gate * math.log(self.num_classes)
        rows = (prediction.doubt < limit).nonzero().squeeze(1)
        if len(rows) > 0:
            super().remember(images[rows], prediction.rows(rows))

    def update(self, stored: Retrieved) -> Tensor:
        """Take one step on stored samples and a view of them."""
        images = self.images_of(stored)
        return self._train_pass(*self.filled(images, self.augmented(images)))[0]

    @tensor_pass
    def _train_pass(
        self, images: Tensor, view: Tensor, rows: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Take one step on the mean cross-entropy, then pull both networks' statistics back."""
        residual = replace(self.residual, rows=rows)
        with torch.no_grad():
            (target,) = self.network.run(Group(images, self.teacher, residual))
        (logits,) = self.network.run(Group(view, self.student, residual))
        loss = mean_of(soft_cross_entropy(logits, target.softmax(dim=1)), rows)
        gradient = self.student.gradient(loss)
        if self.config.affine_pull:
            gap = self.student.affine - self.anchor.affine
            gradient = gradient + 2 * self.config.affine_pull * gap
            loss = loss + self.config.affine_pull * gap.square().sum()
        self.optimizer.step(gradient)
        self.alignment(self.student, self.config.statistics_pull)
        self.alignment(self.teacher, self.config.statistics_pull)
        self.teacher.affine.lerp_(self.student.affine, self.config.teacher_rate)
        return (loss.detach(),)


@dataclass(frozen=True)
class Residual:
    """Normalisation that moves like :class:`Robust`, but whose statistics are constants."""

    rate: float
    rows: Tensor | None = None  # (B,) 1 or 0: the others are there to fill the batch up

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x`` and move ``state.mean`` and ``state.var`` in place."""
        move_statistics(x.detach(), state, self.rate, self.rows)
        if not torch.is_grad_enabled():
            return frozen(x, state)
        # Copies: another layer or pass moves the statistics before the backward reads these.
        mean, var = state.mean.clone(), state.var.clone()
        return batch_norm(x, mean, var, state.weight, state.bias, eps=state.eps)

    @cached_property
    def mix(self) -> Mix:
        """What fused kernels do in its place."""
        return Mix.moving(self.rate, 0.0, self.rows)


class Alignment:
    """Pulls statistics back to those of ``source`` (the soft alignment).

    For diagonal Gaussians W2^2 = sum (M - M0)^2 + (s - s0)^2 with s = sqrt(V + eps), so mean and s
    both go the share 2 ``rate`` of their way back in one step of size ``rate`` on it.
    """

    def __init__(self, source: Branch) -> None:
        self._source = source
        sizes, stats = source.moment_sizes, source.statistics
        eps = [layer.eps * i for layer in source.layers for i in (0, 1)]  # of means none
        kinds = [torch.full((n,), bool(i % 2)) for i, n in enumerate(sizes)]
        values = [torch.full((n,), e, dtype=torch.float32) for n, e in zip(sizes, eps, strict=True)]
        self._is_var, self._eps = torch.cat(kinds).to(stats.device), torch.cat(values).to(stats)

    def __call__(self, branch: Branch, rate: float) -> None:
        """Take one step with the statistics of ``branch``, in place."""
        is_var, eps = self._is_var, self._eps
        ours, theirs = (
            torch.where(is_var, (b.statistics + eps).sqrt(), b.statistics)
            for b in (branch, self._source)
        )
        moved = ours.lerp(theirs, 2 * rate)
        branch.statistics.copy_(torch.where(is_var, moved.square() - eps, moved))
