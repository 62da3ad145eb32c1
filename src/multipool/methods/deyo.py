"""DeYO: entropy minimised on samples whose class goes when the object is taken apart.

Lee et al., Entropy is not Enough for Test-Time Adaptation: From the Perspective of Disentangled
Factors, ICLR 2024. Numbers compared with mariodoebler/test-time-adaptation, the shuffles ours.

Entropy alone trusts samples that are sure for the wrong reason (background, colour). Their
pseudo-label probability difference (PLPD) is how much of the predicted class's probability is lost
once the image's patches are shuffled: shape is gone, colours stay.

Facts of the released code (Jhyun17/DeYO): the shuffled images run without gradient, among
themselves (their batch statistics are those of the confident samples alone), each with an order of
its own; the weights of Eq. 9 to 11 are sums, not products. The authors' PLPD threshold is 0.3 for
ImageNet-C in a mild setting with BatchNorm, else 0.2. The top layers of ResNets and ViTs stay as
they are, as in SAR.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.core import lookup
from multipool.engine import Context, OnePass, tensor_pass
from multipool.ops import entropy
from multipool.ops.masked import masked_mean, run_some
from multipool.ops.optimise import OPTIMIZERS, step_where
from multipool.ops.sharpness import below_the_top


@dataclass(frozen=True)
class DeYOConfig:
    """Defaults for CIFAR of mariodoebler/test-time-adaptation; the authors' are for ImageNet."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    entropy_margin: float = 0.5  # tau_Ent as a share of ln L: samples above are not learned from
    weight_margin: float = 0.4  # Ent_0 as a share of ln L: samples below weigh more than 1
    drop: float = 0.2  # tau_PLPD: probability that shuffling must take away
    patches: int = 4  # along each side

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of deyo")
        if self.patches < 2:
            raise ValueError(f"deyo's patches must be at least 2 along a side, got {self.patches}")


class DeYO(OnePass):
    """Learns from samples that are sure because of the shape they show.

    Each confident image is also seen with its patches shuffled, which takes its shape away and
    leaves its colours. Samples whose predicted class loses little probability by that were sure
    because of something else, and are left out; the others are learned by entropy, and count for
    more the surer they are and the more they lose. Two forward passes and one backward pass a
    batch, the second of the confident samples alone.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`DeYOConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "deyo")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Lee et al., Entropy is not Enough for Test-Time Adaptation: From the Perspective of
        Disentangled Factors, ICLR 2024.
    """

    name = "deyo"
    Config = DeYOConfig

    def __init__(self, context: Context, config: DeYOConfig) -> None:
        super().__init__(context, config)
        self.student = self.network.require_source(self.name).copy(trainable=True)
        self.trained = below_the_top(self.network, self.student.sizes)
        self.optimizer = OPTIMIZERS[config.optimizer](self.student.affine, config.lr)
        largest = math.log(self.num_classes)
        self.limit, self.even = config.entropy_margin * largest, config.weight_margin * largest

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step; every image's patches are shuffled in an order of its own."""
        with torch.no_grad():
            keys = self.draws.random((len(images), self.config.patches**2))
            order = torch.from_numpy(keys.argsort(axis=1)).to(self.device)
            broken = shuffle_patches(images, order, self.config.patches)
        loss, logits = self.train_pass(images, self.network.prepare(broken))
        return loss, logits

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on Eq. 8 to 11; a batch without a sample worth it changes nothing."""
        logits = self.logits(images)
        doubt = entropy(logits)
        with torch.no_grad():
            sure = doubt < self.limit  # (B,)
            drop = self.difference(logits, run_some(self.network, more[0], self.student, sure))
            chosen = sure & (drop > self.config.drop)
            weights = torch.exp(self.even - doubt) + torch.exp(drop)
        loss = masked_mean(weights * doubt, chosen)
        step_where(self.optimizer, self.student.gradient(loss) * self.trained, chosen.any())
        return loss.detach(), logits.detach()

    @staticmethod
    def difference(logits: Tensor, broken: Tensor) -> Tensor:
        """Return the PLPD: p_y(x) - p_y(x'), y the class predicted for x, ``(B,)``."""
        labels = logits.argmax(dim=1, keepdim=True)
        return (logits.softmax(dim=1) - broken.softmax(dim=1)).gather(1, labels).squeeze(1)


def shuffle_patches(images: Tensor, order: Tensor, patches: int) -> Tensor:
    """Return images ``(B, C, H, W)`` with the cells of a grid in ``order`` ``(B, patches^2)``.

    Sides that the grid does not divide are resized to the next smaller multiple and back.

    >>> image = torch.arange(4.0).view(1, 1, 2, 2)
    >>> shuffle_patches(image, torch.tensor([[3, 0, 1, 2]]), 2).flatten().tolist()
    [3.0, 0.0, 1.0, 2.0]
    """
    count, channels, *sides = images.shape
    fitting = [max(side // patches, 1) * patches for side in sides]
    x = _resized(images, fitting)
    height, width = (side // patches for side in fitting)
    cells = x.reshape(count, channels, patches, height, patches, width)
    cells = cells.permute(0, 2, 4, 1, 3, 5).reshape(count, patches**2, channels, height, width)
    cells = cells[torch.arange(count, device=order.device)[:, None], order]
    cells = cells.view(count, patches, patches, channels, height, width).permute(0, 3, 1, 4, 2, 5)
    return _resized(cells.reshape(count, channels, *fitting), sides)


def _resized(images: Tensor, sides: list[int]) -> Tensor:
    if list(images.shape[2:]) == list(sides):
        return images
    return F.interpolate(images, size=sides, mode="bilinear", antialias=True)
