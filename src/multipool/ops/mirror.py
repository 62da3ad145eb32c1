"""The view of an image that a model should answer alike: in a mirror, and a little moved."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

_PART = 32  # of a side: so far the view is moved, one pixel of 32


def mirrored(images: Tensor) -> Tensor:
    """Return images ``(B, C, H, W)`` in a mirror, and moved down and right by 1/32 of a side.

    What comes in at the border is reflected.

    >>> import torch
    >>> mirrored(torch.tensor([[[[1.0, 2.0, 3.0]]]])).tolist()
    [[[[3.0, 2.0, 1.0]]]]
    """
    height, width = images.shape[-2:]
    down, right = round(height / _PART), round(width / _PART)
    moved = F.pad(images.flip(3), (right, 0, down, 0), mode="reflect")
    return moved[..., :height, :width]
