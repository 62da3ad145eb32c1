"""The loop that EATA, RDumb and MECTA share: the entropy of reliable, non-redundant samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.methods.one_pass import OnePass
from multipool.ops import entropy
from multipool.ops.masked import masked_mean
from multipool.ops.optimise import OPTIMIZERS, FlatOptimizer, step_where

_AVERAGE_RATE = 0.1  # share of the batch in each update of the average prediction


class Selective(OnePass):
    """TENT on the samples worth learning from; a batch without one changes nothing.

    The config of a method over this base has ``lr``, ``optimizer``, ``entropy_margin`` (share of
    the largest entropy below which a sample is reliable) and ``redundancy`` (cosine to the average
    prediction from which on a sample says nothing new).
    """

    def _build(self) -> None:
        super()._build()
        self.limit = self.config.entropy_margin * math.log(self.setup.num_classes)
        # All zero until a first sample has passed: nothing resembles it, so all pass.
        zeros = torch.zeros(self.setup.num_classes, device=self.device)
        self.average = self._keep("average", zeros)

    def _make_optimizer(self, values: Tensor) -> FlatOptimizer:
        return OPTIMIZERS[self.config.optimizer](values, self.config.lr)

    def _pull(self) -> tuple[Tensor, Tensor]:
        """Return a penalty on the parameters and its gradient ``(P,)``; none here."""
        return self.average.new_zeros(()), torch.zeros_like(self.student.affine)

    def _moving(self, passed: Tensor) -> Tensor:
        """Return which parameters may move, ``()`` or ``(P,)``, given which samples passed."""
        return passed.any()

    def _train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the weighted entropy of the samples that pass, and the penalty."""
        logits = self._logits(images)
        doubt = entropy(logits)
        with torch.no_grad():
            p = logits.softmax(dim=1)
            familiar = F.cosine_similarity(self.average[None], p, dim=1).abs()
            passed = (doubt < self.limit) & (familiar < self.config.redundancy)  # (B,)
            weights = torch.exp(self.limit - doubt)
            self._move_average(p, passed)
        loss = masked_mean(weights * doubt, passed)
        penalty, slope = self._pull()
        step_where(self.optimizer, self._gradient(loss) + slope, self._moving(passed))
        return (loss.detach() + penalty, logits.detach())

    def _move_average(self, p: Tensor, passed: Tensor) -> None:
        """Move the average prediction to the samples that passed; the first ones set it."""
        mean = masked_mean(p, passed)  # (L,)
        moved = torch.where(self.average.any(), self.average.lerp(mean, _AVERAGE_RATE), mean)
        self.average.copy_(torch.where(passed.any(), moved, self.average))
