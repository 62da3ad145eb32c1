"""TENT: minimise the entropy of the predictions over the affine parameters of normalisation.

Wang et al., Tent: Fully Test-Time Adaptation by Entropy Minimization, ICLR 2021. Numbers
compared with mariodoebler/test-time-adaptation.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.core import lookup
from multipool.methods.one_pass import OnePass
from multipool.ops import entropy
from multipool.ops.affine import LayerAffine
from multipool.ops.optimise import OPTIMIZERS, FlatOptimizer


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
    config: TENTConfig

    def _build(self) -> None:
        self.layers: LayerAffine | None = None
        if self.network.source is not None:
            super()._build()
            return
        self.layers = LayerAffine(self.network, method=self.name)
        self._train_values(self.layers.values)

    def _make_optimizer(self, values: Tensor) -> FlatOptimizer:
        return OPTIMIZERS[self.config.optimizer](values, self.config.lr)

    def _logits(self, images: Tensor) -> Tensor:
        return super()._logits(images) if self.layers is None else self.layers.run(images)

    def _gradient(self, loss: Tensor) -> Tensor:
        return super()._gradient(loss) if self.layers is None else self.layers.gradient(loss)

    def _loss(self, logits: Tensor) -> Tensor:
        return entropy(logits).mean()
