"""EATA: entropy minimisation on samples worth it, with a Fisher penalty against forgetting.

Niu et al., Efficient Test-Time Model Adaptation without Forgetting, ICML 2022. Numbers compared
with mariodoebler/test-time-adaptation, with ``loss="come"`` with BlueWhaleLab/COME.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.core import lookup
from multipool.engine import Context, Kept, OnePass, tensor_pass
from multipool.ops.masked import masked_mean
from multipool.ops.optimise import OPTIMIZERS, step_where
from multipool.ops.probability import ENTROPIES

_AVERAGE_RATE = 0.1  # share of the batch in each update of the average prediction


@dataclass(frozen=True)
class EATAConfig:
    """Defaults for CIFAR-100-C of mariodoebler/test-time-adaptation."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    entropy_margin: float = 0.4  # E0 as a share of ln L: samples above are unreliable
    redundancy: float = 0.1  # d: samples at or above this cosine to the average are redundant
    fisher_weight: float = 1.0  # beta: pull of parameters that mattered for the source
    fisher_images: int = 2000  # of the source, the first ones
    fisher_batch: int = 64  # images in each squared gradient: the size of the test batches
    loss: str = "entropy"  # or come: selected, weighted and minimised is the conservative entropy

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of eata")
        lookup(ENTROPIES, self.loss, "loss of eata")


class Selection:
    """Which samples are worth learning from: reliable ones that say something new.

    ``margin`` is the share of the largest entropy below which a sample is reliable, ``redundancy``
    the cosine to the average prediction from which on it says nothing new, ``loss`` the entropy.
    """

    def __init__(
        self,
        num_classes: int,
        margin: float,
        redundancy: float,
        device: torch.device,
        loss: str = "entropy",
    ) -> None:
        self.limit, self.redundancy = margin * math.log(num_classes), redundancy
        self.entropy = ENTROPIES[loss]
        # All zero until a first sample has passed: nothing resembles it, so all pass.
        self.average = torch.zeros(num_classes, dtype=torch.float32, device=device)

    def loss(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weighted entropy of the samples that pass, and which do ``(B,)``.

        Moves the average prediction.
        """
        doubt = self.entropy(logits)
        with torch.no_grad():
            p = logits.softmax(dim=1)
            familiar = F.cosine_similarity(self.average[None], p, dim=1).abs()
            passed = (doubt < self.limit) & (familiar < self.redundancy)  # (B,)
            weights = torch.exp(self.limit - doubt)
            self._move_average(p, passed)
        return masked_mean(weights * doubt, passed), passed

    def _move_average(self, p: Tensor, passed: Tensor) -> None:
        """Move the average prediction to the samples that passed; the first ones set it."""
        mean = masked_mean(p, passed)  # (L,)
        moved = torch.where(self.average.any(), self.average.lerp(mean, _AVERAGE_RATE), mean)
        self.average.copy_(torch.where(passed.any(), moved, self.average))


class EATA(OnePass):
    """Learns from reliable, new samples and holds on to what mattered for the source.

    Only images of low entropy that differ from the recent ones are learned from, and the Fisher
    information of source images says which parameters should stay where they are.

    A batch without a sample worth it changes nothing.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`EATAConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, source_batches, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "eata", source=source_batches())
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Niu et al., Efficient Test-Time Model Adaptation without Forgetting, ICML 2022.
    """

    name = "eata"
    Config = EATAConfig
    needs_source = True

    def __init__(self, context: Context, config: EATAConfig) -> None:
        super().__init__(context, config)
        self.anchor = self.network.require_source(self.name)
        self.student = self.anchor.copy(trainable=True)
        self.optimizer = OPTIMIZERS[config.optimizer](self.student.affine, config.lr)
        self.selection = Selection(
            self.num_classes, config.entropy_margin, config.redundancy, self.device, config.loss
        )
        self.fisher = self.source.fisher(
            self.student, images=config.fisher_images, size=config.fisher_batch
        )

    def keeps(self) -> Kept:
        """Return what learning changes, and the Fisher weights."""
        own = {"average": self.selection.average, "statistics.fisher": self.fisher}
        return {**super().keeps(), **own}

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the selected entropy + beta sum_j F_j (theta_j - theta*_j)^2."""
        logits = self.logits(images)
        loss, passed = self.selection.loss(logits)
        penalty, slope = fisher_pull(self.student.affine, self.anchor.affine, self.fisher)
        gradient = self.student.gradient(loss) + self.config.fisher_weight * slope
        step_where(self.optimizer, gradient, passed.any())
        return loss.detach() + self.config.fisher_weight * penalty, logits.detach()


def fisher_pull(values: Tensor, anchor: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return sum_j F_j (v_j - a_j)^2 and its gradient ``(P,)``.

    >>> value, slope = fisher_pull(torch.tensor([3.0]), torch.tensor([1.0]), torch.tensor([0.5]))
    >>> float(value), float(slope)
    (2.0, 2.0)
    """
    gap = values - anchor
    return (weights * gap.square()).sum(), 2 * weights * gap
