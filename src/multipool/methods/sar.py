"""SAR: sharpness-aware minimisation of the entropy of reliable samples, with a way back.

Niu et al., Towards Stable Test-Time Adaptation in Dynamic Wild World, ICLR 2023. Numbers compared
with mariodoebler/test-time-adaptation and with the authors' released code (mr-eggplant/SAR), with
``loss="come"`` with BlueWhaleLab/COME.

Facts of the released code where the paper says less:

- SGD with momentum 0.9, not Nesterov's. A batch without a reliable sample has gradient 0, so its
  momentum still moves the parameters.
- Samples must be reliable twice, in both passes; the loss of the second is what e_m averages.
- A recovery restores parameters, not the momentum. It is to forget e_m (the authors say so in
  issue 4 of their repository; their code assigns the old value again), so ours does.
- The top layers of ResNets and ViTs stay as they are (``ops.sharpness.below_the_top``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.engine import Context, Kept, OnePass, tensor_pass
from multipool.ops.masked import masked_mean
from multipool.ops.optimise import FlatSGD
from multipool.ops.probability import ENTROPIES
from multipool.ops.sharpness import below_the_top, climbed

_LEVEL_RATE = 0.1  # share of the batch in each update of e_m
_NONE = -1.0  # e_m before the first reliable sample; no entropy is negative


@dataclass(frozen=True)
class SARConfig:
    """Defaults for CIFAR of mariodoebler/test-time-adaptation; the authors' are for ImageNet."""

    lr: float = 1e-3
    entropy_margin: float = 0.4  # E0 as a share of ln L: samples above are unreliable
    radius: float = 0.05  # rho: how far away the worst place may be
    recovery: float = 0.2  # e_0: below this average entropy (nats) it has collapsed
    loss: str = "entropy"  # or come: the conservative entropy of Zhang et al., ICLR 2025

    def __post_init__(self) -> None:
        lookup(ENTROPIES, self.loss, "loss of sar")


class SAR(OnePass):
    """Learns from reliable samples in flat places, and starts anew when its entropy vanishes.

    It minimises the entropy of predictions whose entropy is low enough to be trusted. Each step
    goes along the gradient at the worst place near the parameters (sharpness-aware minimisation),
    so that it ends where the loss is flat; when the average entropy nearly vanishes the model has
    collapsed, and its parameters go back to the source's. Two forward and two backward passes a
    batch.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`SARConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "sar")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Niu et al., Towards Stable Test-Time Adaptation in Dynamic Wild World, ICLR 2023.
    """

    name = "sar"
    Config = SARConfig

    def __init__(self, context: Context, config: SARConfig) -> None:
        super().__init__(context, config)
        self.anchor = self.network.require_source(self.name)
        self.student = self.anchor.copy(trainable=True)
        self.trained = below_the_top(self.network, self.student.sizes)
        self.optimizer = FlatSGD(self.student.affine, config.lr, nesterov=False)
        self.limit = config.entropy_margin * math.log(self.num_classes)
        self.level = torch.full((), _NONE, dtype=torch.float32, device=self.device)  # e_m

    def keeps(self) -> Kept:
        """Return what learning changes."""
        return {**super().keeps(), "level": self.level}

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on Eq. 2 by Eq. 4: the gradient at Theta + rho g / |g| moves Theta."""
        logits = self.logits(images)
        doubt = ENTROPIES[self.config.loss](logits)
        reliable = doubt < self.limit  # (B,)
        slope = self.gradient(masked_mean(doubt, reliable))
        with climbed(self.student.affine, slope, self.config.radius):
            doubt = ENTROPIES[self.config.loss](self.logits(images))
            reliable = reliable & (doubt < self.limit)
            loss = masked_mean(doubt, reliable)
            slope = self.gradient(loss)
        self.optimizer.step(slope)
        self._recover(loss.detach(), reliable.any())
        return loss.detach(), logits.detach()

    def gradient(self, loss: Tensor) -> Tensor:
        """Return d loss / d affine ``(P,)``, 0 in the layers that are not trained."""
        return self.student.gradient(loss) * self.trained

    @torch.no_grad()
    def _recover(self, loss: Tensor, learned: Tensor) -> None:
        """Move e_m, if there was something to learn; below e_0 go back to the source."""
        moved = torch.where(self.level < 0, loss, self.level.lerp(loss, _LEVEL_RATE))
        level = torch.where(learned, moved, self.level)
        collapsed = (level >= 0) & (level < self.config.recovery)
        self.level.copy_(torch.where(collapsed, _NONE, level))
        affine = self.student.affine
        affine.copy_(torch.where(collapsed, self.anchor.affine, affine))
