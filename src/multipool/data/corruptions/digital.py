"""Digital: contrast, brightness, saturation, JPEG and coarse pixels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import BytesIO
from os import cpu_count

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.parameters import ParameterSet
from multipool.data.corruptions.planes import gaussian, to_pixels, to_planes


def contrast(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Pull every channel towards its mean over the image."""
    share = sets.contrast[severity - 1]
    pixels = images.shape[1] * images.shape[2]
    total = images.sum(dim=(1, 2), keepdim=True)  # int64: exact in any order
    return images * share + (total / pixels * (1 - share)).float()


def brightness(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Raise the value of hue, saturation and value; black becomes grey.

    Hue and saturation stay, so all channels grow by the same factor.
    """
    values = images.float()
    value = values.amax(dim=-1, keepdim=True)
    lifted = (value + 255 * sets.brightness[severity - 1]).clamp_(max=255)
    return torch.where(value > 0, values * (lifted / value.clamp(min=1)), lifted)


def saturate(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Scale and shift the saturation; hue and value stay.

    A grey pixel has hue 0, which is red, so a shift turns it reddish. One channel has no
    saturation and comes back as it is.
    """
    if images.shape[-1] == 1:
        return images
    level = sets.saturate[severity - 1]
    values = images.float()
    low, value = values.aminmax(dim=-1, keepdim=True)
    spread = value - low
    old = spread / value.clamp(min=1)
    new = (old * level.scale + level.shift).clamp_(max=1)
    coloured = value - (value - values) * (new / old.clamp(min=1e-6))
    red = torch.tensor([0.0, 1.0, 1.0], device=images.device)
    return torch.where(spread > 0, coloured, value * (1 - new * red))


def jpeg_compression(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Encode and decode every image as JPEG, on the host."""
    quality = sets.jpeg_compression[severity - 1]
    pixels = images.cpu().numpy()
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        done = list(pool.map(lambda image: _through_jpeg(image, quality), pixels))
    return torch.from_numpy(np.stack(done)).to(images.device)


def pixelate(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Shrink by averaging boxes and enlarge again by the same rule, in whole grey levels."""
    share = sets.pixelate[severity - 1]
    planes = to_planes(images)
    height, width = planes.shape[-2:]
    rows, columns = max(int(height * share), 1), max(int(width * share), 1)
    for sizes in (((width, columns), (height, rows)), ((columns, width), (rows, height))):
        across, down = (_box_weights(*pair).to(planes.device) for pair in sizes)
        planes = (planes @ across.T).add_(0.5).floor_()  # Pillow rounds after each direction
        planes = (down @ planes).add_(0.5).floor_()
    return to_pixels(planes)


@lru_cache(maxsize=64)
def _box_weights(size: int, target: int) -> Tensor:
    """Return the ``(target, size)`` matrix of Pillow's box filter: means of whole pixels."""
    scale = size / target
    support = 0.5 * max(scale, 1.0)
    centre = (np.arange(target) + 0.5) * scale
    # A pixel counts if its centre lies in the box (low, high]: Pillow's rule for ties.
    offset = (np.arange(size) + 0.5 - centre[:, None]) / max(scale, 1.0)
    first = np.floor(centre - support + 0.5).clip(0)[:, None]
    last = np.floor(centre + support + 0.5).clip(max=size)[:, None]
    place = np.arange(size)
    weights = ((offset > -0.5) & (offset <= 0.5) & (place >= first) & (place < last)) * 1.0
    return torch.from_numpy(weights / weights.sum(axis=1, keepdims=True)).float()


def _through_jpeg(image: np.ndarray, quality: int) -> np.ndarray:
    """Return uint8 ``(H, W, C)`` after one round through Pillow's JPEG."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image).save(
        buffer, "JPEG", quality=quality
    )
    with Image.open(buffer) as decoded:
        return np.asarray(decoded).reshape(image.shape)


def elastic_transform(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Shear and stretch the image, then push its pixels about."""
    level = sets.elastic_transform[severity - 1]
    planes = to_planes(images)
    batch, _, height, width = planes.shape
    jitter = (draws.uniform("affine", batch, 3, 2) * 2 - 1) * level.affine
    grid = _affine_places(jitter, height, width)
    # Pixel centres on the border are the mirrors here, pixel edges below.
    planes = F.grid_sample(planes, grid, padding_mode="reflection", align_corners=True)
    if level.strength > 0:
        noise = draws.uniform("push", batch, 2, height, width) * 2 - 1
        push = gaussian(noise, level.sigma, truncate=3.0, border="symmetric") * level.strength
        across = torch.arange(width, device=planes.device) + push[:, 0]
        down = torch.arange(height, device=planes.device)[:, None] + push[:, 1]
        grid = torch.stack(((2 * across + 1) / width - 1, (2 * down + 1) / height - 1), dim=-1)
        planes = F.grid_sample(planes, grid, padding_mode="reflection", align_corners=False)
    return to_pixels(planes)


def _affine_places(jitter: Tensor, height: int, width: int) -> Tensor:
    """Return where each pixel comes from, ``(B, H, W, 2)`` in [-1, 1] with corners at the ends.

    The affine map takes three points of a centred square to the same points plus ``jitter``
    ``(B, 3, 2)``, in pixels; pixels are read through its inverse.
    """
    # Axes as published: the first coordinate, half the height, is taken as x.
    centre = torch.tensor([height // 2, width // 2], device=jitter.device, dtype=torch.float64)
    half = min(height, width) // 3
    corners = torch.tensor([[1, 1], [1, -1], [-1, -1]], device=jitter.device) * half + centre
    moved = corners + jitter.double()  # (B, 3, 2)
    ones = torch.ones_like(moved[..., :1])
    inverse = torch.linalg.solve(torch.cat((moved, ones), dim=-1), corners.expand_as(moved))
    x = torch.arange(width, device=jitter.device, dtype=torch.float64)
    y = torch.arange(height, device=jitter.device, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)  # (H, W, 2)
    scale = torch.tensor([2 / (width - 1), 2 / (height - 1)], device=jitter.device)
    linear, shift = inverse[:, :2] * scale, inverse[:, 2] * scale - 1  # (B, 2, 2), (B, 2)
    places = grid.float().view(1, -1, 2) @ linear.float() + shift.float()[:, None]
    return places.view(-1, height, width, 2)
