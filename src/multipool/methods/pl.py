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

from multipool.methods.one_pass import OnePass


@dataclass(frozen=True)
class PLConfig:
    """Defaults for CIFAR of the code that ran the PTTA tables (Gorilla-Lab-SCUT/TRIBE)."""

    lr: float = 1e-3


class PL(OnePass):
    """Believes its argmax and learns it."""

    name = "pl"
    Config = PLConfig
    config: PLConfig

    def _loss(self, logits: Tensor) -> Tensor:
        return F.cross_entropy(logits, logits.detach().argmax(dim=1))
