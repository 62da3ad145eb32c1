"""RDumb: EATA without its Fisher penalty, put back to the source every so many batches.

Press et al., RDumb: A simple approach that questions our progress in continual test-time
adaptation, NeurIPS 2023. ``reset_every`` of :func:`multipool.adapt` does the same to any method.
Numbers compared with mariodoebler/test-time-adaptation.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.core import lookup
from multipool.engine import Context, Kept, OnePass, tensor_pass
from multipool.methods.eata import Selection
from multipool.ops.optimise import OPTIMIZERS, step_where


@dataclass(frozen=True)
class RDumbConfig:
    """Defaults for CIFAR-100-C of mariodoebler/test-time-adaptation."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    entropy_margin: float = 0.4  # E0 as a share of ln L: samples above are unreliable
    redundancy: float = 0.4  # samples at or above this cosine to the average are redundant
    reset_every: int = 1000  # batches, those without a single good sample included

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of rdumb")
        if self.reset_every < 1:
            raise ValueError(f"reset_every must be at least 1 batch, got {self.reset_every}")


class RDumb(OnePass):
    """Learns as EATA does, and starts anew every so many batches, before it can collapse.

    It learns from confident images unlike those before them, by entropy, and every so many
    batches goes back to the source model: a simple rule that many methods do not beat over long
    streams.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`RDumbConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "rdumb")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Press et al., RDumb: A simple approach that questions our progress in continual
        test-time adaptation, NeurIPS 2023.
    """

    name = "rdumb"
    Config = RDumbConfig

    def __init__(self, context: Context, config: RDumbConfig) -> None:
        super().__init__(context, config)
        self.student = self.network.require_source(self.name).copy(trainable=True)
        self.optimizer = OPTIMIZERS[config.optimizer](self.student.affine, config.lr)
        self.selection = Selection(
            self.num_classes, config.entropy_margin, config.redundancy, self.device
        )

    def keeps(self) -> Kept:
        """Return what learning changes."""
        return {**super().keeps(), "average": self.selection.average}

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on EATA's selected entropy; a batch without such samples takes none."""
        logits = self.logits(images)
        loss, passed = self.selection.loss(logits)
        step_where(self.optimizer, self.student.gradient(loss), passed.any())
        return loss.detach(), logits.detach()
