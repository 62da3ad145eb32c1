"""TENT: minimise the entropy of the predictions over the affine parameters of normalisation.

Wang et al., Tent: Fully Test-Time Adaptation by Entropy Minimization, ICLR 2021. Numbers
compared with mariodoebler/test-time-adaptation, with ``loss="come"`` with BlueWhaleLab/COME.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.core import lookup
from multipool.engine import Context, OnePass, tensor_pass
from multipool.ops.optimise import OPTIMIZERS
from multipool.ops.probability import ENTROPIES


@dataclass(frozen=True)
class TENTConfig:
    """Defaults for CIFAR of the code that ran the PTTA tables (Gorilla-Lab-SCUT/TRIBE)."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    loss: str = "entropy"  # or come: the conservative entropy of Zhang et al., ICLR 2025

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of tent")
        lookup(ENTROPIES, self.loss, "loss of tent")


class TENT(OnePass):
    """Sharpens its own predictions.

    Each batch is normalised by its own statistics, and one gradient step over the affine
    parameters of the normalisation layers lowers the entropy of its predictions. The answers
    are those from before the step.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`TENTConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "tent")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Wang et al., Tent: Fully Test-Time Adaptation by Entropy Minimization, ICLR 2021.
    """

    name = "tent"
    Config = TENTConfig

    def __init__(self, context: Context, config: TENTConfig) -> None:
        super().__init__(context, config)
        self.student = self.network.require_source(self.name).copy(trainable=True)
        self.optimizer = OPTIMIZERS[config.optimizer](self.student.affine, config.lr)

    def loss(self, logits: Tensor) -> Tensor:
        """Return the mean entropy, of either kind."""
        return ENTROPIES[self.config.loss](logits).mean()

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the loss."""
        logits = self.logits(images)
        loss = self.loss(logits)
        self.optimizer.step(self.student.gradient(loss))
        return loss.detach(), logits.detach()
