"""Means over some of the samples, without boolean indexing and so without a host decision."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return sum mask v / max(1, sum mask) over samples, ``(B, ...)`` to ``(...)``.

    >>> masked_mean(torch.tensor([1.0, 5.0, 3.0]), torch.tensor([True, False, True]))
    tensor(2.)
    >>> masked_mean(torch.ones(2), torch.zeros(2, dtype=torch.bool))
    tensor(0.)
    """
    weights = mask.to(values.dtype)
    # Not a product with 0: a sample left out may well be infinite.
    kept = torch.where(mask.view(-1, *[1] * (values.ndim - 1)), values, 0.0)
    return kept.sum(dim=0) / weights.sum().clamp_min(1)
