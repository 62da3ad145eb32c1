"""Elastic transform: a random affine map, then a smooth random displacement of every pixel."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.parameters import ParameterSet
from multipool.data.corruptions.planes import gaussian, to_pixels, to_planes


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
