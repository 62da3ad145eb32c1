"""ROID's self-training loss, its weights, and its correction for the prior of a batch.

Marsden, Döbler, Yang: Universal Test-time Adaptation through Weight Ensembling, Diversity
Weighting, and Prior Correction, WACV 2024.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.ops.probability import entropy

_MOST = 0.99  # a probability of 1 would have an infinite ratio
_TINY = 1e-5


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
