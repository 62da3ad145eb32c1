"""ROID: self-training with certainty and diversity weights, tied to the source and to the prior.

Marsden, Döbler, Yang: Universal Test-time Adaptation through Weight Ensembling, Diversity
Weighting, and Prior Correction, WACV 2024. Numbers compared with the authors' released code
(mariodoebler/test-time-adaptation), the random view ours.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.core import lookup
from multipool.engine import Context, Kept, OnePass, Prediction, tensor_pass
from multipool.ops import View, entropy, symmetric_cross_entropy
from multipool.ops.masked import run_some
from multipool.ops.optimise import OPTIMIZERS, step_where

_MOST = 0.99  # a probability of 1 would have an infinite ratio
_TINY = 1e-5


@dataclass(frozen=True)
class ROIDConfig:
    """Defaults for CIFAR of the authors' released code (mariodoebler/test-time-adaptation)."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    source_pull: float = 0.01  # share of the source in the parameters after each step
    average_rate: float = 0.1  # share of the batch in each update of the average prediction
    temperature: float = 1 / 3  # of the weights by certainty and diversity
    batch_size: int = 64  # B0: divides the loss, also that of a smaller last batch

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of roid")


class DiverseSelfTraining(OnePass):
    """Trains on the diverse half of a batch and on its view; what comes then is the method's."""

    view = View(reflect=True)

    def __init__(self, context: Context, config: Any) -> None:  # noqa: ANN401
        super().__init__(context, config)
        self.anchor = self.network.require_source(self.name)
        self.student = self.anchor.copy(trainable=True)
        self.optimizer = OPTIMIZERS[config.optimizer](self.student.affine, config.lr)
        self.average = torch.full(
            (self.num_classes,), 1 / self.num_classes, dtype=torch.float32, device=self.device
        )

    def keeps(self) -> Kept:
        """Return what learning changes."""
        return {**super().keeps(), "average": self.average}

    def predict(self, images: Tensor) -> Prediction:
        """Return the logits, corrected for the batch's prior."""
        prediction = super().predict(images)
        return prediction.with_logits(prior_correction(prediction.logits))

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step; the logits are corrected for the batch's prior."""
        # One draw serves the whole batch and adds no noise, so the view of the images that will
        # count is the same whether the others are in it or not.
        loss, logits = self.train_pass(images, self.augmented(images))
        return loss, prior_correction(logits)

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step; a batch without spread (a single image) changes nothing (ours)."""
        logits = self.logits(images)
        with torch.no_grad():
            weights = diversity_weights(logits, self.average, self.config.temperature)  # (B,)
            mean = logits.softmax(dim=1).mean(dim=0)
        wanted, go = weights > 0, weights.any()
        # The gradient flows into both predictions.
        again = symmetric_cross_entropy(self.view_logits(more[0], wanted), logits)
        losses = torch.where(wanted, soft_likelihood_ratio(logits) + again, 0.0)
        loss = (weights * losses).sum() / self.config.batch_size
        step_where(self.optimizer, self.student.gradient(loss), go)
        with torch.no_grad():
            self.average.lerp_(mean, self.config.average_rate * go)
            self.settle(go)
        return loss.detach(), logits.detach()

    @abstractmethod
    def settle(self, go: Tensor) -> None:
        """Change the parameters just learned, without gradients; not where ``go`` is False."""

    def view_logits(self, view: Tensor, wanted: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` of the wanted views, normalised among themselves."""
        return run_some(self.network, view, self.student, wanted)


class ROID(DiverseSelfTraining):
    """Leans back to the source after every step.

    Losses are weighted by certainty and by how unlike the recent predictions an image is; after
    every step the weights move a little back to the source, and the answers are corrected by
    the classes that the batch seems to hold.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`ROIDConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "roid")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Marsden, Döbler, Yang: Universal Test-time Adaptation through Weight Ensembling,
        Diversity Weighting, and Prior Correction, WACV 2024.
    """

    name = "roid"
    Config = ROIDConfig

    def settle(self, go: Tensor) -> None:
        """Move the parameters a little towards the source's."""
        self.student.affine.lerp_(self.anchor.affine, self.config.source_pull * go)


def soft_likelihood_ratio(logits: Tensor) -> Tensor:
    """Return SLR(z) = -sum_c q_c log(q_c / (1 - q_c) + 1e-5), q at most 0.99, ``(B,)``.

    Unlike the entropy its gradient does not vanish for confident samples, until they reach 0.99.
    """
    q = logits.softmax(dim=1).clamp(max=_MOST)
    return -(q * (q / (1 - q) + _TINY).log()).sum(dim=1)


def diversity_weights(logits: Tensor, average: Tensor, temperature: float) -> Tensor:
    """Return exp(diversity * certainty / T) per sample ``(B,)``; 0 for the less diverse half.

    Diversity is 1 - cos(``average``, p) and certainty is the negative entropy, each rescaled to
    [0, 1] over the batch; below the mean diversity the weight is 0. A batch without spread, such
    as a batch of one, has no scale to measure by: all its weights are 0 (ours).
    """
    diversity = 1 - F.cosine_similarity(average[None], logits.softmax(dim=1), dim=1)
    certainty = -entropy(logits)
    spread = [t.amax() - t.amin() for t in (diversity, certainty)]
    diversity = (diversity - diversity.amin()) / spread[0]
    certainty = (certainty - certainty.amin()) / spread[1]
    weights = torch.exp(diversity * certainty / temperature)
    wanted = (diversity >= diversity.mean()) & (spread[0] > 0) & (spread[1] > 0)
    return torch.where(wanted, weights, 0.0)


def prior_correction(logits: Tensor) -> Tensor:
    """Return the logits ``(B, L)`` times the batch's smoothed class prior.

    With pi = mean p and s = max(1/B, 1/L) / max pi the prior is (pi + s) / (1 + s L): the less
    is known (few samples, flat predictions), the nearer to uniform.
    """
    count, classes = logits.shape
    prior = logits.softmax(dim=1).mean(dim=0)
    smooth = max(1 / count, 1 / classes) / prior.amax()
    return logits * (prior + smooth) / (1 + smooth * classes)
