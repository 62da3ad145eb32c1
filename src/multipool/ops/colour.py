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
    return (0.2989 * red).add_(green, alpha=0.587).add_(blue, alpha=0.114).unsqueeze(1)


def brightness(images: Tensor, factor: Factor) -> Tensor:
    """Scale all values by ``factor``."""
    return (images * factor).clamp_(0, 1)


def contrast(images: Tensor, factor: Factor) -> Tensor:
    """Blend each image with its own mean grey."""
    mean = grey(images.mean(dim=(2, 3), keepdim=True))  # the mean of the greys: both are sums
    return torch.lerp(mean, images, factor).clamp_(0, 1)


def saturation(images: Tensor, factor: Factor) -> Tensor:
    """Blend each pixel with its grey."""
    if images.shape[1] != 3:
        return images
    return torch.lerp(grey(images), images, factor).clamp_(0, 1)


def hue(images: Tensor, turns: Factor) -> Tensor:
    """Turn the colour circle by ``turns`` (1 is once around), keeping value and chroma.

    A channel lies below the value by chroma * clamp(T, 0, 1), where T is a triangle wave over the
    circle, from -1 to 2 and back in six sixths. In terms of the colour, chroma * T = largest +
    middle - 2 * channel, and T rises where the next channel is above the one after it; so turning
    is adding, with no division and no case for each sixth.
    """
    if images.shape[1] != 3:
        return images
    red, green, blue = images.split(1, dim=1)  # (B, 1, H, W)
    value, least = images.amax(dim=1, keepdim=True), images.amin(dim=1, keepdim=True)
    chroma = value - least
    middle = (red + green).add_(blue).sub_(value).sub_(least)
    rising = torch.cat([green - blue, blue - red, red - green], dim=1)
    turns = turns - (turns.round() if isinstance(turns, Tensor) else round(turns))
    new = torch.sub(images, middle, alpha=0.5).mul_(2)  # value - chroma * T
    if isinstance(turns, float) and abs(turns) <= 1 / 6:
        new.addcmul_(rising.sign_(), -6 * turns * chroma)  # a peak that is passed stays clamped
    else:
        wave = value - new + torch.where(rising < 0, -chroma, chroma) * (6 * turns)
        new = value - torch.maximum(torch.minimum(wave, 4 * chroma - wave), -2 * chroma - wave)
    return torch.clamp(new, least, value)


def gamma(images: Tensor, exponent: Factor) -> Tensor:
    """Raise values, at least 1e-8, to ``exponent``."""
    # Torch's own power takes five times as long on the CPU.
    return images.clamp(1e-8, 1).log_().mul_(exponent).exp_().clamp_(0, 1)
