"""The contrastive loss over several views of each sample (Khosla et al. 2020, without labels)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def contrastive_loss(vectors: Tensor, temperature: float) -> Tensor:
    """Return the mean loss over all anchors of ``(V, B, D)`` vectors: V views of B samples.

    Every vector is an anchor; its positives are the other views of its own sample, its
    denominator is all other V B - 1 vectors. Vectors are compared by their cosine.
    """
    views, count, _ = vectors.shape
    flat = F.normalize(vectors.flatten(0, 1), dim=1)  # (V B, D), sample i of view v at v B + i
    similar = flat @ flat.T / temperature
    itself = torch.eye(len(flat), dtype=torch.bool, device=flat.device)
    log_p = similar.masked_fill(itself, -torch.inf).log_softmax(dim=1)
    sample = torch.arange(count, device=flat.device).repeat(views)
    positive = (sample[:, None] == sample) & ~itself
    return -torch.where(positive, log_p, 0.0).sum() / (len(flat) * (views - 1))


def nearest_by_cosine(features: Tensor, prototypes: Tensor) -> Tensor:
    """Return for each feature ``(B, D)`` the prototype with the largest cosine, ``(B, D)``.

    A prototype of zeros stands for a class without one and is never chosen.
    """
    cosine = F.normalize(features, dim=1) @ F.normalize(prototypes, dim=1).T  # (B, L)
    absent = prototypes.abs().amax(dim=1) == 0
    return prototypes[cosine.masked_fill(absent, -torch.inf).argmax(dim=1)]
