"""Colour changes of a batch of images in [0, 1], by one factor or by one per image.

Factors are numbers or tensors that broadcast against ``(B, C, H, W)``. Every function clamps its
result to [0, 1]. Images without three channels have no hue and no saturation: those leave them be.
"""

from __future__ import annotations

import torch
from torch import Tensor

Factor = float | Tensor


def grey(images: Tensor) -> Tensor:
    """Return the luma ``(B, 1, H, W)`` of RGB images; of others, the mean over channels."""
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    red, green, blue = images.unbind(dim=1)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).unsqueeze(1)


def brightness(images: Tensor, factor: Factor) -> Tensor:
    """Scale all values by ``factor``."""
    return (images * factor).clamp_(0, 1)


def contrast(images: Tensor, factor: Factor) -> Tensor:
    """Blend each image with its own mean grey."""
    mean = grey(images).mean(dim=(1, 2, 3), keepdim=True)
    return (images * factor).add_(mean * (1 - factor)).clamp_(0, 1)


def saturation(images: Tensor, factor: Factor) -> Tensor:
    """Blend each pixel with its grey."""
    if images.shape[1] != 3:
        return images
    return (images * factor).add_(grey(images) * (1 - factor)).clamp_(0, 1)


def hue(images: Tensor, turns: Factor) -> Tensor:
    """Turn the colour circle by ``turns`` (1 is once around), keeping value and chroma."""
    if images.shape[1] != 3:
        return images
    red, green, blue = images.split(1, dim=1)  # (B, 1, H, W)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    # Position on the circle in sixths: two per channel, plus the difference of the other two.
    scale = 1 / chroma.clamp_min(1e-12)
    position = torch.where(
        red == value,
        (green - blue) * scale,
        torch.where(green == value, (blue - red) * scale + 2, (red - green) * scale + 4),
    )
    position = position + 6 * turns
    corners = torch.tensor([5.0, 3.0, 1.0], device=images.device, dtype=images.dtype)
    k = (position + corners.view(1, 3, 1, 1)).remainder_(6)
    return (value - torch.minimum(k, 4 - k).clamp_(0, 1).mul_(chroma)).clamp_(0, 1)


def gamma(images: Tensor, exponent: Factor) -> Tensor:
    """Raise values, at least 1e-8, to ``exponent``."""
    return images.clamp(1e-8, 1).pow_(exponent).clamp_(0, 1)
