"""TENT: minimise the entropy of the predictions over the affine parameters of normalisation.

Wang et al., Tent: Fully Test-Time Adaptation by Entropy Minimization, ICLR 2021. Numbers
compared with mariodoebler/test-time-adaptation.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from torch import Tensor, nn

from multipool.core import lookup
from multipool.engine import Context, OnePass, tensor_pass
from multipool.ops import Network, entropy
from multipool.ops.flat import Flat, gradients
from multipool.ops.optimise import OPTIMIZERS


@dataclass(frozen=True)
class TENTConfig:
    """Defaults for CIFAR of the code that ran the PTTA tables (Gorilla-Lab-SCUT/TRIBE)."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of tent")


class TENT(OnePass):
    """Sharpens its own predictions; without BatchNorm it trains LayerNorm and GroupNorm instead."""

    name = "tent"
    Config = TENTConfig

    def __init__(self, context: Context, config: TENTConfig) -> None:
        super().__init__(context, config)
        self.layers: LayerAffine | None = None
        if self.network.source is not None:
            self.student = self.network.source.copy(trainable=True)
            values = self.student.affine
        else:
            self.layers = LayerAffine(self.network)
            values = self.layers.values
        self.optimizer = OPTIMIZERS[config.optimizer](values, config.lr)

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` of the network that learns."""
        return super().logits(images) if self.layers is None else self.layers.run(images)

    def loss(self, logits: Tensor) -> Tensor:
        """Return the mean entropy."""
        return entropy(logits).mean()

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the loss."""
        logits = self.logits(images)
        loss = self.loss(logits)
        learner = self.student if self.layers is None else self.layers
        self.optimizer.step(learner.gradient(loss))
        return loss.detach(), logits.detach()


class LayerAffine:
    """A copy of a network whose LayerNorm and GroupNorm layers are trained, without BatchNorm.

    Such layers keep no statistics, so there is nothing to steer: their weights and biases are all.
    ``values`` is ``[w_1, b_1, w_2, ...]`` ``(P,)`` in float32.
    """

    def __init__(self, network: Network) -> None:
        self.network = copy.deepcopy(network)
        # Torch's CPU backward of GroupNorm crashes on channels last if only w and b want gradients.
        for parameter in self.network.body.parameters():
            parameter.data = parameter.data.contiguous()
        kinds = (nn.LayerNorm, nn.GroupNorm)
        layers = [m for m in self.network.body.modules() if isinstance(m, kinds)]
        leaves = [p for layer in layers for p in layer.parameters(recurse=False)]
        if not leaves:
            raise ValueError(
                "method 'tent' trains the affine parameters of BatchNorm, LayerNorm or "
                "GroupNorm layers and this model has none; choose a method that works without "
                "(source, lame, neo)"
            )
        self.flat = Flat(leaves, trainable=True)
        self.values = self.flat.values

    def run(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)``."""
        self.flat.refresh()
        return self.network.plain(images.contiguous())

    def gradient(self, loss: Tensor) -> Tensor:
        """Return d loss / d values, ``(P,)``; layers the loss misses count as 0."""
        return gradients(loss, self.flat)[0]
