"""PL: cross-entropy to one's own hardest guess.

Lee, Pseudo-Label: The Simple and Efficient Semi-Supervised Learning Method for Deep Neural
Networks (ICML workshop 2013), at test time over the affine parameters as Wang et al. (ICLR 2021)
compare it: every sample counts, no confidence threshold. Numbers compared with
Gorilla-Lab-SCUT/TRIBE.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from multipool.engine import Context, OnePass, tensor_pass
from multipool.ops import FlatAdam


@dataclass(frozen=True)
class PLConfig:
    """Defaults for CIFAR of the code that ran the PTTA tables (Gorilla-Lab-SCUT/TRIBE)."""

    lr: float = 1e-3


class PL(OnePass):
    """Learns the classes that it has just predicted, as if they were labels.

    Each batch is normalised by its own statistics, and one gradient step over the affine
    parameters of the normalisation layers raises the probability of the classes that were just
    predicted.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`PLConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "pl")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Lee, Pseudo-Label: The Simple and Efficient Semi-Supervised Learning Method for Deep
        Neural Networks, ICML workshop 2013.
    """

    name = "pl"
    Config = PLConfig

    def __init__(self, context: Context, config: PLConfig) -> None:
        super().__init__(context, config)
        self.student = self.network.require_source(self.name).copy(trainable=True)
        self.optimizer = FlatAdam(self.student.affine, config.lr)

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the mean cross-entropy of every sample to its own argmax."""
        logits = self.logits(images)
        loss = F.cross_entropy(logits, logits.detach().argmax(dim=1))
        self.optimizer.step(self.student.gradient(loss))
        return loss.detach(), logits.detach()
