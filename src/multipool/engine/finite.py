"""Whether values are finite numbers, found in few kernels."""

from __future__ import annotations

import math

from torch import Tensor


def extent(values: Tensor) -> Tensor:
    """Return max - min of a tensor as ``()``: not finite if anything in it is not.

    >>> import torch
    >>> extent(torch.tensor([1.0, 4.0])), extent(torch.tensor([1.0, float("-inf")]))
    (tensor(3.), tensor(inf))
    """
    low, high = values.detach().aminmax()
    return high - low


def is_finite(values: Tensor) -> bool:
    """Tell whether all values are finite; waits for the device once."""
    return math.isfinite(float(extent(values)))
