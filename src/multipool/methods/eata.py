"""EATA: entropy minimisation on samples worth it, with a Fisher penalty against forgetting.

Niu et al., Efficient Test-Time Model Adaptation without Forgetting, ICML 2022. Numbers compared
with mariodoebler/test-time-adaptation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from multipool.core import lookup
from multipool.methods.fisher import obtain_fisher
from multipool.methods.selective import Selective
from multipool.ops.fisher import fisher_pull
from multipool.ops.optimise import OPTIMIZERS


@dataclass(frozen=True)
class EATAConfig:
    """Defaults for CIFAR-100-C of mariodoebler/test-time-adaptation."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    entropy_margin: float = 0.4  # E0 as a share of ln L: samples above are unreliable
    redundancy: float = 0.1  # d: samples at or above this cosine to the average are redundant
    fisher_weight: float = 1.0  # beta
    fisher_images: int = 2000  # of the source, the first ones
    fisher_batch: int = 64  # images in each squared gradient: the size of the test batches

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of eata")


class EATA(Selective):
    """Learns from reliable, new samples and holds on to what mattered for the source."""

    name = "eata"
    Config: ClassVar[type] = EATAConfig  # MECTA has another
    needs_source: ClassVar[bool] = True
    config: EATAConfig

    def _build(self) -> None:
        super()._build()
        self.anchor = self.network.require_source(self.name)
        fisher = obtain_fisher(
            self.network,
            self.student,
            self.setup.source,
            images=self.config.fisher_images,
            size=self.config.fisher_batch,
            method=self.name,
        )
        self.fisher = self._keep("statistics.fisher", fisher)

    def _pull(self) -> tuple[Tensor, Tensor]:
        """Return beta sum_j F_j (theta_j - theta*_j)^2 and its gradient."""
        value, slope = fisher_pull(self.student.affine, self.anchor.affine, self.fisher)
        return self.config.fisher_weight * value, self.config.fisher_weight * slope
