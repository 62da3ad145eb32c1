"""Random restoration: now and then a weight goes back to where it started (CoTTA Sec. 3.3)."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def stochastic_restore(
    values: Tensor, source: Tensor, rate: float, generator: torch.Generator
) -> None:
    """Set each element of ``values`` to that of ``source`` with probability ``rate``, in place.

    >>> values = torch.ones(3)
    >>> stochastic_restore(values, torch.zeros(3), 1.0, torch.Generator())
    >>> values
    tensor([0., 0., 0.])
    """
    draws = torch.rand(values.shape, generator=generator, device=values.device)
    values.copy_(torch.where(draws < rate, source, values))
