"""Sums over samples of one class, by one matrix product and without a host decision."""

from __future__ import annotations

import torch
from torch import Tensor


def class_means(features: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Return each class's mean feature ``(L, D)`` and its number of samples ``(L,)``.

    Classes without samples have mean 0 and count 0.
    """
    classes = torch.arange(num_classes, device=labels.device)
    member = (labels[:, None] == classes).to(features.dtype)  # (B, L)
    counts = member.sum(dim=0)  # (L,)
    means = member.T @ features / counts.clamp_min(1)[:, None]
    return means, counts
