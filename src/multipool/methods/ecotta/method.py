"""EcoTTA: small networks beside the parts of a frozen one learn, held to what it says.

Song, Lee, Kweon, Choi: EcoTTA: Memory-Efficient Continual Test-time Adaptation via Self-distilled
Regularization, CVPR 2023. Unverified: the authors' code is not public. Settings are those of a
community implementation (Lily-Le/EcoTTA). We follow the mathematics, not the saving of memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.engine import Context, Kept, Method, Prediction, tensor_pass
from multipool.methods.ecotta.parts import MetaNetworks
from multipool.ops import entropy
from multipool.ops.flat import gradients
from multipool.ops.masked import masked_mean
from multipool.ops.optimise import FlatSGD

_MILESTONES, _DECAY = (0.3, 0.6, 0.8), 0.2  # of the warm-up's epochs, and the rate after each


@dataclass(frozen=True)
class EcoTTAConfig:
    """Settings of Lily-Le/EcoTTA for CIFAR-100-C, with batches of 64."""

    lr: float = 5e-3  # of SGD with momentum 0.9
    parts: int = 5  # K, that the network is cut into; at most as many as it has blocks
    distil_weight: float = 0.25  # lambda: of staying near what the frozen parts say
    entropy_margin: float = 0.4  # H0 as a share of ln L: samples above do not count
    warmup_epochs: int = 10  # over the source images, before the stream
    warmup_lr: float = 5e-2  # of the warm-up, which falls in three steps
    source_images: int = 50_000  # for the warm-up
    source_batch: int = 64  # source images in each step of the warm-up

    def __post_init__(self) -> None:
        if min(self.parts, self.source_images, self.source_batch) < 1 or self.warmup_epochs < 0:
            raise ValueError(
                "ecotta's parts, source_images and source_batch must be at least 1 and its "
                "warmup_epochs at least 0"
            )


class EcoTTA(Method):
    """Learns by the entropy of sure predictions; each part stays near its frozen output.

    The network is frozen and cut into parts; beside each stands a small network, a normalisation of
    the part's output plus one convolution of its input, trained on source images before the
    stream. Then only the small networks learn, by the entropy of predictions that are sure enough,
    while each part's output is held to what the frozen part says.

    Making one takes a while: it trains the small networks on labelled source images. A saved state
    holds what they became, so loading needs no source data.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`EcoTTAConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, source_batches, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "ecotta", source=source_batches())
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Song, Lee, Kweon, Choi: EcoTTA: Memory-Efficient Continual Test-time Adaptation via
        Self-distilled Regularization, CVPR 2023.
    """

    name = "ecotta"
    needs_norm = "batchnorm"
    normalises_by = "batch"
    Config = EcoTTAConfig
    needs_source = True
    one_pass = True

    def __init__(self, context: Context, config: EcoTTAConfig) -> None:
        super().__init__(context, config)
        self.limit = config.entropy_margin * math.log(self.num_classes)
        given = self.source.given
        if isinstance(given, Mapping) and {"warm", "shape"} <= set(given):
            self._make([int(n) for n in given["shape"]])
            self.meta.values.copy_(given["warm"])
        else:
            replay = self.source.replay(most=config.source_images, size=config.source_batch)
            self._make(list(replay.images.shape[1:]))
            steps = config.warmup_epochs * len(replay)
            for index in range(steps):
                self._warm_step(*replay.batch(index), index / max(steps, 1), len(replay) / steps)
        self.warm = self.meta.values.clone()
        self.source.given = {"warm": self.warm, "shape": self.shape}
        self.optimizer = FlatSGD(self.meta.values, config.lr, nesterov=False)

    def _make(self, shape: list[int]) -> None:
        self.shape = torch.tensor(shape, device=self.device)  # the guard asks all in one place
        self.meta = MetaNetworks(self.network, tuple(shape), self.config.parts, self.draws)
        self._warming = FlatSGD(self.meta.values, self.config.warmup_lr, nesterov=False)

    def keeps(self) -> Kept:
        """Return the small networks, the optimiser's state, and what the warm-up made of them."""
        return {
            "meta.values": self.meta.values,
            "optimizer": self.optimizer,
            "statistics.warm": self.warm,
            "statistics.shape": self.shape,
        }

    def _warm_step(self, images: Tensor, labels: Tensor, done: float, epoch: float) -> None:
        """Take a step on the cross-entropy; the rate rises for an epoch, then falls in steps.

        ``done`` is the share of the warm-up behind it, ``epoch`` that of one epoch.
        """
        share = min(1.0, done / epoch) * _DECAY ** sum(done >= m for m in _MILESTONES)
        prepared = self.network.prepare(images.to(self.device))
        with torch.enable_grad():
            self._warm_pass(
                prepared,
                labels.to(self.device),
                torch.tensor(share, dtype=torch.float32, device=self.device),
            )

    @tensor_pass
    def _warm_pass(self, images: Tensor, labels: Tensor, share: Tensor) -> tuple[Tensor, ...]:
        logits, _ = self.meta.run(images)
        loss = F.cross_entropy(logits, labels)
        before = self.meta.values.clone()
        self._warming.step(*gradients(loss, self.meta.flat))
        # A step is linear in the learning rate: a share of one is the other.
        self.meta.values.copy_(before.lerp(self.meta.values, share))
        return (loss.detach(),)

    def predict(self, images: Tensor) -> Prediction:
        """Return what :meth:`train` would, and learn nothing."""
        return Prediction(self._look_pass(images)[0])

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step; return its loss and the logits ``(B, L)`` from before it."""
        loss, logits = self._train_pass(images)
        return loss, logits

    @tensor_pass
    def _look_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self.meta.run(images)[0],)

    @tensor_pass
    def _train_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the entropy below H0 + lambda sum_k mean |x~_k - x_k|."""
        logits, apart = self.meta.run(images, measure=True)
        doubt = entropy(logits)
        loss = masked_mean(doubt, doubt.detach() < self.limit) + self.config.distil_weight * apart
        self.optimizer.step(*gradients(loss, self.meta.flat))
        return loss.detach(), logits.detach()
