"""One page of the dataset: an image of every class, with everything but the class at random.

Parameters come from a numpy generator, pixels from elementwise torch operations at twice the
size, averaged down. Arrays are ``(S, F, ...)``: a row for each outline, a column for each fill.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.data.shapes.fills import FILLS
from multipool.data.shapes.outlines import OUTLINES

SIDE = 32
_FINE = 2  # samples per pixel and axis
_BEHIND, _BEFORE = 4, 1  # small things behind and before the object
_PAGE = (len(OUTLINES), len(FILLS))
_LUMA = torch.tensor([0.299, 0.587, 0.114])


def page(rng: np.random.Generator) -> Tensor:
    """Return one image of every class, by label: uint8 ``(S * F, 3, 32, 32)``."""
    grid = (torch.arange(SIDE * _FINE, dtype=torch.float32) + 0.5) / _FINE - SIDE / 2
    right, up = grid.view(1, 1, 1, -1), -grid.view(1, 1, -1, 1)  # pixels from the centre
    x, y, radius = _place(rng, right, up)
    depth = torch.stack([outline(x[s], y[s]) for s, outline in enumerate(OUTLINES.values())])
    inside = _cover(depth, radius)  # (S, F, 64, 64)
    ground, first, second = _colours(rng)
    canvas = _background(rng, ground, right, up)  # (S, F, 3, 64, 64)
    canvas = _clutter(rng, canvas, right, up, _BEHIND)
    canvas = canvas * (1.0 - _shadow(rng, inside)).unsqueeze(2)
    mix = _mix(rng, x, y, depth).unsqueeze(2)
    body = first * (1 - mix) + second * mix
    canvas = torch.lerp(canvas, body, inside.unsqueeze(2))
    canvas = _clutter(rng, canvas, right, up, _BEFORE)
    canvas = _light(rng, canvas, right, up)
    small = F.avg_pool2d(canvas.flatten(0, 1), _FINE)  # (S * F, 3, 32, 32)
    small += _grain(rng, small.shape)
    return (small.clamp_(0.0, 1.0) * 255).round_().to(torch.uint8)


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> Tensor:
    """Return numbers in [low, high), one for each image and place in ``shape``."""
    return torch.from_numpy(rng.uniform(low, high, (*_PAGE, *shape)).astype(np.float32))


def _planes(values: Tensor) -> Tensor:
    """Return one number per image as ``(S, F, 1, 1)``."""
    return values[..., None, None]


def _place(rng: np.random.Generator, right: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return object coordinates ``(S, F, 64, 64)`` and radii ``(S, F, 1, 1)`` in pixels."""
    radius = _planes(_uniform(rng, 8.0, 13.0))
    stretch = _planes(_uniform(rng, -0.14, 0.14)).exp()
    turn = _planes(_uniform(rng, -24.0, 24.0)) * (math.pi / 180)
    room = (SIDE / 2 - 0.85 * radius).clamp(min=1.0)
    dx = right - room * _planes(_uniform(rng, -1.0, 1.0))
    dy = up - room * _planes(_uniform(rng, -1.0, 1.0))
    mirror = torch.where(_planes(_uniform(rng, -1.0, 1.0)) < 0, -1.0, 1.0)
    x = (torch.cos(turn) * dx + torch.sin(turn) * dy) * mirror / (radius * stretch)
    y = (torch.cos(turn) * dy - torch.sin(turn) * dx) * stretch / radius
    return x, y, radius


def _cover(depth: Tensor, radius: Tensor) -> Tensor:
    """Return how much of each sample lies inside, with an edge about one sample wide."""
    return (0.5 - depth * radius * _FINE).clamp_(0.0, 1.0)


def _mix(rng: np.random.Generator, x: Tensor, y: Tensor, depth: Tensor) -> Tensor:
    """Return the share of the second colour, ``(S, F, 64, 64)``, each fill on its column."""
    rate, phase = _planes(_uniform(rng, 0.85, 1.2)), _planes(_uniform(rng, 0.0, 1.0))
    columns = [
        fill(x[:, f], y[:, f], depth[:, f], rate[:, f], phase[:, f])
        for f, fill in enumerate(FILLS.values())
    ]
    return torch.stack(columns, dim=1)


def _colours(rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return the colours of ground, first and second fill, each ``(S, F, 3, 1, 1)``.

    The three differ in lightness by at least 0.1, in random order; hue and saturation are free.
    """
    levels = torch.tensor([0.18, 0.5, 0.82]) + _uniform(rng, -0.11, 0.11, 3)
    order = _uniform(rng, 0.0, 1.0, 3).argsort(dim=-1)
    level = levels.gather(-1, order).unsqueeze(-1)  # (S, F, 3 colours, 1)
    hue = 2 * math.pi * _uniform(rng, 0.0, 1.0, 3, 1)
    vivid = 0.36 * _uniform(rng, 0.0, 1.0, 3, 1).sqrt()
    wheel = torch.cos(hue - torch.tensor([0.0, 2 * math.pi / 3, 4 * math.pi / 3]))
    tint = vivid * (wheel - (wheel * _LUMA).sum(-1, keepdim=True))  # no lightness of its own
    colour = (level + tint).clamp(0.02, 0.98)[..., None, None]
    return colour[:, :, 0], colour[:, :, 1], colour[:, :, 2]


def _background(rng: np.random.Generator, ground: Tensor, right: Tensor, up: Tensor) -> Tensor:
    """Return the ground with a slope and soft clouds, ``(S, F, 3, 64, 64)``."""
    slope = _slope(rng, 0.10, right, up)
    coarse = _uniform(rng, -1.0, 1.0, 3, 6, 6).flatten(0, 1)
    shared = coarse.mean(dim=1, keepdim=True)  # mostly light and dark, a little colour
    clouds = F.interpolate(
        0.09 * shared * 1.7 + 0.05 * coarse, size=up.shape[2], mode="bicubic", align_corners=False
    )
    return ground + slope.unsqueeze(2) + clouds.unflatten(0, _PAGE)


def _slope(rng: np.random.Generator, most: float, right: Tensor, up: Tensor) -> Tensor:
    """Return a plane through the centre, at most ``most`` at the border."""
    angle = _planes(_uniform(rng, 0.0, 2 * math.pi))
    height = _planes(_uniform(rng, 0.0, most))
    return height * (torch.cos(angle) * right + torch.sin(angle) * up) / (SIDE / 2)


def _clutter(
    rng: np.random.Generator, canvas: Tensor, right: Tensor, up: Tensor, count: int
) -> Tensor:
    """Return the canvas with ``count`` small discs and bars scattered over it."""
    for _ in range(count):
        dx = right - _planes(_uniform(rng, -16.0, 16.0))
        dy = up - _planes(_uniform(rng, -16.0, 16.0))
        turn = _planes(_uniform(rng, 0.0, math.pi))
        length = _planes(_uniform(rng, -5.0, 5.0)).clamp(min=0.0)  # half of them are discs
        width = _planes(_uniform(rng, 0.7, 2.2))
        along = (torch.cos(turn) * dx + torch.sin(turn) * dy).abs() - length
        across = torch.cos(turn) * dy - torch.sin(turn) * dx
        gap = torch.hypot(along.clamp(min=0.0), across) - width
        inside = (0.5 - gap * _FINE).clamp_(0.0, 1.0) * _planes(_uniform(rng, 0.3, 0.9))
        colour = _uniform(rng, 0.1, 0.9, 3, 1, 1)
        canvas = torch.lerp(canvas, colour, inside.unsqueeze(2))
    return canvas


def _shadow(rng: np.random.Generator, inside: Tensor) -> Tensor:
    """Return how dark the object's soft shadow makes the ground, ``(S, F, 64, 64)``."""
    soft = F.avg_pool2d(inside, 7, stride=1, padding=3)
    soft = soft.roll((4, 3), dims=(2, 3))
    return soft * _planes(_uniform(rng, 0.0, 0.45))


def _light(rng: np.random.Generator, canvas: Tensor, right: Tensor, up: Tensor) -> Tensor:
    """Return the canvas under a light that has a direction, a strength and a colour."""
    ramp = 1.0 + _slope(rng, 0.28, right, up)
    strength = _uniform(rng, 0.82, 1.12, 1, 1, 1) * _uniform(rng, 0.94, 1.06, 3, 1, 1)
    return canvas * ramp.unsqueeze(2) * strength


def _grain(rng: np.random.Generator, shape: torch.Size) -> Tensor:
    """Return a camera's slight noise for images of this shape, more for some than others."""
    strength = _uniform(rng, 0.0, 0.02, 1, 1, 1).flatten(0, 1)
    return strength * torch.from_numpy(rng.standard_normal(tuple(shape), dtype=np.float32))
