"""Which images an adapter takes, and which rows of a batch are no images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import as_float, check_images

_NEUTRAL = 0.5  # stands for a pixel that is not a number


@dataclass(frozen=True)
class ValidInput:
    """Float images ``(B, C, H, W)`` in [0, 1]; ``bad`` ``(B,)`` bool: mended rows, None: none."""

    images: Tensor
    bad: Tensor | None = None


def validate_input(images: object, device: torch.device, bad_input: str = "raise") -> ValidInput:
    """Check a batch and bring it to ``device`` as float.

    What is no batch of images at all is a ``ValueError`` in any case. Under ``mask`` a row with
    NaN, infinity or a value outside [0, 1] is mended and marked: NaN becomes 0.5, the rest is
    clamped. Under ``raise`` it is a ``ValueError`` like everything else.
    """
    masking = bad_input == "mask"
    x = as_float(check_images(images, finite=not masking).detach().to(device))
    x = x.clone() if x.is_inference() else x
    if not masking or (isinstance(images, Tensor) and images.dtype == torch.uint8):
        return ValidInput(x)
    bad = ~((x >= 0) & (x <= 1)).flatten(1).all(dim=1)  # (B,); NaN compares false
    if not bool(bad.any()):
        return ValidInput(x)
    return ValidInput(x.nan_to_num(nan=_NEUTRAL, posinf=1.0, neginf=0.0).clamp(0, 1), bad)
