"""The ten outlines, each a distance: negative inside, positive outside, in units of the radius.

A function takes the object's own coordinates ``x`` (right) and ``y`` (up), any shape, with the
outline inside the unit disc, and returns one distance per point. All but the crescent are
symmetric about ``x = 0``, and the crescent is drawn both ways, so a mirrored image keeps its class.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Outline = Callable[[Tensor, Tensor], Tensor]


def disc(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a disc."""
    return torch.hypot(x, y) - 0.88


def square(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a square that stands on its side."""
    return torch.maximum(x.abs(), y.abs()) - 0.78


def triangle(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a triangle that points up."""
    slope = x.abs() * math.cos(math.pi / 6) + (y + 0.12) * math.sin(math.pi / 6)
    return torch.maximum(slope, -(y + 0.12)) - 0.52


def star(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a star with five points, one of them up."""
    radius, angle = torch.hypot(x, y), torch.atan2(x, y)
    sector = 2 * math.pi / 5
    angle = (torch.remainder(angle + sector / 2, sector) - sector / 2).abs()  # 0 at a tip
    return _beyond(radius * torch.cos(angle), radius * torch.sin(angle), sector / 2)


def _beyond(across: Tensor, along: Tensor, half: float, inner: float = 0.45) -> Tensor:
    """Return the distance past the line from a star's tip (1, 0) to its inner corner."""
    corner = (inner * math.cos(half), inner * math.sin(half))
    normal = (corner[1], 1.0 - corner[0])
    length = math.hypot(*normal)
    return ((across - 1.0) * normal[0] + along * normal[1]) / length


def cross(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a plus sign."""
    across, along = x.abs(), y.abs()
    bar = torch.maximum(across - 0.95, along - 0.34)
    return torch.minimum(bar, torch.maximum(across - 0.34, along - 0.95))


def ring(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a ring."""
    return (torch.hypot(x, y) - 0.69).abs() - 0.26


def crescent(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a crescent that is open to the right."""
    return torch.maximum(torch.hypot(x, y) - 0.98, 0.72 - torch.hypot(x - 0.48, y))


def heart(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to a heart: a square on its corner and a disc on each upper side."""
    across, up, half = x.abs(), y + 0.18, 0.8
    diamond = (across + up.abs() - half) / math.sqrt(2)
    lobe = torch.hypot(across - half / 2, up - half / 2) - half / math.sqrt(2)
    return torch.minimum(diamond, lobe)


def arrow(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to an arrow that points up."""
    across = x.abs()
    head = torch.maximum((across + 0.9 * (y - 1.0)) / math.hypot(1.0, 0.9), -y)
    shaft = torch.maximum(across - 0.3, (y + 0.45).abs() - 0.5)
    return torch.minimum(head, shaft)


def hourglass(x: Tensor, y: Tensor) -> Tensor:
    """Return the distance to an hourglass that stands."""
    side = (x.abs() - 0.8 * y.abs() - 0.08) / math.hypot(1.0, 0.8)
    return torch.maximum(side, y.abs() - 0.85)


OUTLINES: dict[str, Outline] = {
    "disc": disc,
    "square": square,
    "triangle": triangle,
    "star": star,
    "cross": cross,
    "ring": ring,
    "crescent": crescent,
    "heart": heart,
    "arrow": arrow,
    "hourglass": hourglass,
}
