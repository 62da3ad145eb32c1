"""Separable linear maps of image planes, shared by the corruptions that blur or resample."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def to_planes(images: Tensor) -> Tensor:
    """Return uint8 ``(B, H, W, C)`` as contiguous float32 ``(B, C, H, W)``, still 0 to 255."""
    return images.permute(0, 3, 1, 2).contiguous().float()


def to_pixels(planes: Tensor) -> Tensor:
    """Return ``(B, C, H, W)`` as ``(B, H, W, C)``."""
    return planes.permute(0, 2, 3, 1)


def resample(planes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Apply ``rows`` ``(H', H)`` and ``columns`` ``(W', W)`` to planes ``(..., H, W)``."""
    return rows @ (planes @ columns.T)


@lru_cache(maxsize=64)
def gaussian_weights(size: int, sigma: float, truncate: float, border: str) -> Tensor:
    """Return the ``(size, size)`` matrix that blurs a line as scipy's ``gaussian_filter1d`` does.

    ``border`` is ``"edge"`` (scipy's nearest) or ``"symmetric"`` (scipy's reflect).
    """
    radius = int(truncate * sigma + 0.5)
    steps = np.arange(-radius, radius + 1)
    kernel = np.exp(-0.5 * (steps / sigma) ** 2) if radius else np.ones(1)
    kernel /= kernel.sum()
    source = np.arange(size)[:, None] + steps  # (size, 2 radius + 1)
    if border == "edge":
        source = source.clip(0, size - 1)
    else:
        source = source % (2 * size)
        source = np.where(source < size, source, 2 * size - 1 - source)
    weights = np.zeros((size, size))
    np.add.at(weights, (np.arange(size)[:, None], source), kernel)
    return torch.from_numpy(weights).float()


def gaussian(planes: Tensor, sigma: float, truncate: float = 4.0, border: str = "edge") -> Tensor:
    """Blur planes ``(..., H, W)``; kernel and borders are scikit-image's by default."""
    height, width = planes.shape[-2:]
    rows = gaussian_weights(height, sigma, truncate, border).to(planes.device)
    columns = gaussian_weights(width, sigma, truncate, border).to(planes.device)
    return resample(planes, rows, columns)


def zoom_crop(height: int, width: int, factor: float) -> tuple[slice, slice]:
    """Return the centre crop that fills ``(height, width)`` again when zoomed by ``factor``."""
    tall, wide = int(np.ceil(height / factor)), int(np.ceil(width / factor))
    top, left = (height - tall) // 2, (width - wide) // 2
    return slice(top, top + tall), slice(left, left + wide)


def zoom(crop: Tensor, height: int, width: int, factor: float) -> Tensor:
    """Zoom a crop ``(B, C, h, w)`` linearly by ``factor`` and trim it to ``(height, width)``.

    Corners stay on corners, as in scipy's ``zoom`` of order 1.
    """
    tall, wide = round(crop.shape[-2] * factor), round(crop.shape[-1] * factor)
    large = F.interpolate(crop, size=(tall, wide), mode="bilinear", align_corners=True)
    top, left = (tall - height) // 2, (wide - width) // 2
    return large[..., top : top + height, left : left + width]
