"""The strong view of contrastive methods: colours, grey, blur and flip, for each image its own.

MoCo v2's recipe without its crop, as AdaContrast is run on images of 32 pixels.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.ops import colour

_JITTER, _GREY, _BLUR = 0.8, 0.2, 0.5  # shares of the images that are changed so
_RANGES = ((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1))
_COLOURS = (colour.brightness, colour.contrast, colour.saturation, colour.hue)
_NEUTRAL = (1.0, 1.0, 1.0, 0.0)
_SIGMA = (0.1, 2.0)  # pixels
_RADIUS = 6  # three times the largest sigma
_SHARP = 1e-3  # a sigma that blurs nothing


def flipped(images: Tensor, draws: np.random.Generator) -> Tensor:
    """Return every second image or so mirrored: the weak view."""
    mirrored = _column(draws.random(len(images)) < 0.5, images).bool()
    return torch.where(mirrored, images.flip(-1), images)


def strong_view(images: Tensor, draws: np.random.Generator) -> Tensor:
    """Return a random view of each of the float images ``(B, C, H, W)`` in [0, 1]."""
    count = len(images)
    x = images.clamp(0, 1)
    jittered = draws.random(count) < _JITTER
    factors = [
        np.where(jittered, draws.uniform(*limits, count), neutral)
        for limits, neutral in zip(_RANGES, _NEUTRAL, strict=True)
    ]
    for index in draws.permutation(len(_COLOURS)):  # one order for the batch (ours)
        x = _COLOURS[index](x, _column(factors[index], x))
    x = torch.where(_column(draws.random(count) < _GREY, x).bool(), colour.grey(x), x)
    sigma = np.where(draws.random(count) < _BLUR, draws.uniform(*_SIGMA, count), _SHARP)
    return flipped(blurred(x, sigma), draws)


def blurred(images: Tensor, sigma: np.ndarray) -> Tensor:
    """Return images ``(B, C, H, W)``, each blurred by a Gaussian of its own ``sigma`` ``(B,)``."""
    count, channels, height, width = images.shape
    taps = np.arange(-_RADIUS, _RADIUS + 1)
    kernel = np.exp(-0.5 * (taps / sigma[:, None]) ** 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    weights = torch.from_numpy(kernel).to(images.dtype).to(images.device)
    weights = weights.repeat_interleave(channels, dim=0)[:, None]  # (B C, 1, taps)
    x = F.pad(images, [_RADIUS] * 4, mode="replicate").reshape(1, count * channels, -1, width + 12)
    x = F.conv2d(x, weights[:, :, :, None], groups=count * channels)
    x = F.conv2d(x, weights[:, :, None, :], groups=count * channels)
    return x.view(count, channels, height, width)


def _column(values: np.ndarray, images: Tensor) -> Tensor:
    """Return one number an image as ``(B, 1, 1, 1)``."""
    return torch.from_numpy(values).to(images.dtype).to(images.device).view(-1, 1, 1, 1)
