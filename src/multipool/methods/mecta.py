"""MECTA: normalisation that forgets by surprise and learns sparsely, under EATA.

Hong et al., MECTA: Memory-Economic Continual Test-Time Model Adaptation, ICLR 2023. The paper puts
its layer under several methods; EATA, the example of its release, is our choice. Numbers
compared with that release (SonyResearch/MECTA), whose Fisher pass also moves the statistics. We
follow the arithmetic, not the memory: the activations stay, what the release does not cache gets
its gradient masked, so that no layer waits for the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multipool.engine import Context, Kept, OnePass, tensor_pass
from multipool.methods.eata import Selection, fisher_pull
from multipool.ops import Branch, Group, LayerState, batch
from multipool.ops.normalise import batch_moments, batch_norm
from multipool.ops.optimise import FlatSGD, step_where

_SOFTEN = 1e-3  # in the divergence: tiny variances must not decide it
Moments = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class MECTAConfig:
    """Defaults for CIFAR-100-C of the authors' released code (SonyResearch/MECTA)."""

    lr: float = 1e-4  # of SGD with momentum 0.9, without Nesterov's step
    threshold: float = 0.0025  # of the forget rate, below which a layer has settled
    pruned: float = 0.7  # q: share of channels without a cache in each pass
    entropy_margin: float = 0.4  # E0 as a share of ln L: samples above are unreliable
    redundancy: float = 0.05  # d: samples at or above this cosine to the average are redundant
    fisher_weight: float = 2000.0  # beta: pull of parameters that mattered for the source
    fisher_images: int = 2000  # of the source, the first ones
    fisher_batch: int = 64  # images in each squared gradient: the size of the test batches

    def __post_init__(self) -> None:
        if not 0 <= self.pruned < 1:
            raise ValueError(f"pruned must be a share from 0 to below 1, got {self.pruned}")


class MECTA(OnePass):
    """EATA over layers whose statistics move as fast as the stream surprises them.

    The statistics of each layer move faster the more the batch differs from them, and layers
    that changed little are left out of the update. Under it runs EATA's loss.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`MECTAConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, source_batches, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "mecta", source=source_batches())
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Hong et al., MECTA: Memory-Economic Continual Test-Time Model Adaptation, ICLR 2023.
    """

    name = "mecta"
    needs_norm = "batchnorm"
    normalises_by = "kept"
    Config = MECTAConfig
    needs_source = True

    def __init__(self, context: Context, config: MECTAConfig) -> None:
        super().__init__(context, config)
        self.anchor = self.network.require_statistics(self.name)
        self.student = self.anchor.copy(trainable=True)
        self.optimizer = FlatSGD(self.student.affine, config.lr, nesterov=False)
        self.selection = Selection(
            self.num_classes, config.entropy_margin, config.redundancy, self.device
        )
        self.fisher = self.source.fisher(
            self.student, images=config.fisher_images, size=config.fisher_batch
        )
        self.norm = Forgetting(self.student, config.threshold, config.pruned)

    def keeps(self) -> Kept:
        """Return what learning changes, the statistics too, and the Fisher weights."""
        own = {"average": self.selection.average, "statistics.fisher": self.fisher}
        return {**super().keeps(), "student.statistics": self.student.statistics, **own}

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits; only a pass that learns moves the statistics."""
        policy = self.norm if torch.is_grad_enabled() else self.norm.peek
        return self.network.run(Group(images, self.student, policy))[0]

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Draw the channels to prune and take one step."""
        scores = torch.rand(
            self.norm.count, generator=self.noise, dtype=torch.float32, device=self.device
        )
        loss, logits = self.train_pass(images, scores)
        return loss, logits

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take EATA's step; what settled layers own holds still, as if it had no gradient."""
        self.norm.begin(more[0])
        logits = self.logits(images)
        loss, passed = self.selection.loss(logits)
        penalty, slope = fisher_pull(self.student.affine, self.anchor.affine, self.fisher)
        gradient = self.student.gradient(loss) + self.config.fisher_weight * slope
        step_where(self.optimizer, gradient, self.norm.learning() & passed.any())
        return loss.detach() + self.config.fisher_weight * penalty, logits.detach()


def forget_rate(ours: Moments, theirs: Moments) -> Tensor:
    """Return beta = 1 - exp(-mean over channels of the symmetric KL) of two (mean, var), ``()``.

    >>> one = (torch.zeros(2), torch.ones(2))
    >>> float(forget_rate(one, one))
    0.0
    """
    gap = (ours[0] - theirs[0]).square()
    a, b = ours[1] + _SOFTEN, theirs[1] + _SOFTEN
    distance = ((a + gap) / b + (b + gap) / a) / 2 - 1  # (C,)
    return 1 - torch.exp(-distance.mean())


class Forgetting:
    """The policy of all layers of one branch; call :meth:`begin` before each training pass.

    Statistics move by :func:`forget_rate` and then normalise. A layer whose rate is at most
    ``threshold`` has settled: it passes the gradient on as it came and learns nothing. Of each
    other layer a random share ``pruned`` of the channels keeps no activations: its weights get no
    gradient, and its inputs one that misses the variance. One-dimensional layers are plain.
    """

    def __init__(self, branch: Branch, threshold: float, pruned: float) -> None:
        self.threshold = threshold
        self._index = {id(state): i for i, state in enumerate(branch.layers)}
        device = branch.affine.device
        self._channels = [len(state.mean) for state in branch.layers]
        counts = torch.tensor(self._channels, device=device)
        self.count = sum(self._channels)
        self._layer = torch.arange(len(counts), device=device).repeat_interleave(counts)
        self._first = (counts.cumsum(0) - counts).repeat_interleave(counts)
        self._removed = (counts * pruned).floor().long().repeat_interleave(counts)
        self._values = torch.tensor(branch.sizes, device=device).view(-1, 2).sum(dim=1)
        self._all = len(branch.affine)
        # Layers that never report, one-dimensional ones or no BatchNorm, count as surprised.
        self._rates = torch.full((len(counts),), torch.inf, dtype=torch.float32, device=device)
        self.begin(torch.ones(self.count, dtype=torch.float32, device=device))

    def begin(self, scores: Tensor) -> None:
        """Choose the channels to prune: the lowest ``scores`` ``(sum of channels,)`` a layer."""
        order = (self._layer + scores.double()).argsort()  # layer by layer, scores are in [0, 1)
        places = torch.arange(self.count, device=scores.device)
        ranks = torch.empty_like(places).scatter_(0, order, places) - self._first
        self._cached = (ranks >= self._removed).float().split(self._channels)

    def learning(self) -> Tensor:
        """Return which affine values ``(P,)`` belong to layers active in the last pass."""
        active = self._rates > self.threshold
        return active.repeat_interleave(self._values, output_size=self._all)

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x`` and move ``state.mean`` and ``state.var`` in place."""
        if x.ndim == 2:
            return batch(x, state)
        index = self._index[id(state)]
        found, moved, rate = _moved(x, state)
        state.mean.copy_(moved[0])
        state.var.copy_(moved[1])
        self._rates[index] = rate
        active = (rate > self.threshold).to(rate.dtype)
        out: Tensor = _ForgettingFunction.apply(  # type: ignore[no-untyped-call]
            x, state.weight, state.bias, (*found, *moved, self._cached[index], active), state.eps
        )
        return out

    def peek(self, x: Tensor, state: LayerState) -> Tensor:
        """Return what a call would, and move nothing."""
        if x.ndim == 2:
            return batch(x, state)
        _, (mean, var), _ = _moved(x, state)
        return batch_norm(x, mean, var, state.weight, state.bias, eps=state.eps)


@torch.no_grad()
def _moved(x: Tensor, state: LayerState) -> tuple[Moments, Moments, Tensor]:
    """Return the batch's moments, the layer's after this batch, and the rate between them."""
    found = batch_moments(x.detach())
    rate = forget_rate(found, (state.mean, state.var))
    moved = state.mean.lerp(found[0], rate), state.var.lerp(found[1], rate)
    return found, moved, rate


class _ForgettingFunction(torch.autograd.Function):
    """Normalise by the moved statistics; backward as if by the batch's own, thinned.

    With r = 1/sqrt(v+eps), r_b that of the batch, u = (x - m_b) r_b and n values a channel:
    dx = w r [g - mean g - u mean(g u)], without the last term in pruned channels; dw = sum g (x -
    m) r, 0 in pruned channels; db = sum g. A settled layer: dx = g, dw = db = 0.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        facts: tuple[Tensor, ...],
        eps: float,
    ) -> Tensor:
        _, _, mean, var, _, _ = facts
        ctx.save_for_backward(x, weight, *facts)
        ctx.eps = eps
        return batch_norm(x, mean, var, weight, bias, eps=eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, weight, batch_mean, batch_var, mean, var, cached, active = ctx.saved_tensors
        count = x.numel() // x.shape[1]
        inverse, batch_inverse = (var + ctx.eps).rsqrt(), (batch_var + ctx.eps).rsqrt()
        _, sum_gu, sum_g = torch.ops.aten.native_batch_norm_backward(
            grad, x, weight, None, None, batch_mean, batch_inverse, True, ctx.eps,
            [False, True, True],
        )  # fmt: skip
        scale = weight * inverse
        slope = -active * cached * scale * batch_inverse * sum_gu / count
        shift = -active * scale * sum_g / count - slope * batch_mean
        shape = (1, -1) + (1,) * (x.ndim - 2)
        scale = torch.where(active > 0, scale, 1.0)
        grad_x = torch.addcmul(shift.view(shape), x, slope.view(shape)) + grad * scale.view(shape)
        own = sum_gu * inverse / batch_inverse + (batch_mean - mean) * inverse * sum_g
        return grad_x.to(x.dtype), active * cached * own, active * sum_g, None, None
