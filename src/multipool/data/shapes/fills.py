"""The ten fills: how much of the second colour each point of an object takes, 0 to 1.

A function takes the object's own coordinates ``x`` and ``y``, the outline's distance ``depth``
(negative inside), a ``rate`` near 1 that scales the pattern and a ``phase`` in [0, 1) that shifts
it; all broadcast. Mirroring ``x`` never turns one fill into another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Fill = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

# Periods of about 6 pixels at the usual size: coarse enough to survive a mild blur.
_CYCLES = 1.6


def _hard(wave: Tensor) -> Tensor:
    """Return a wave in [-1, 1] as bands in [0, 1] with an edge about one pixel wide."""
    return (0.5 + 2.0 * wave).clamp_(0.0, 1.0)


def _wave(along: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return sin of ``along`` at the common number of cycles."""
    return torch.sin(2 * math.pi * (_CYCLES * rate * along + phase))


def plain(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return one colour all over."""
    return torch.zeros_like(x)


def rows(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return horizontal stripes."""
    return _hard(_wave(y, rate, phase))


def columns(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return vertical stripes."""
    return _hard(_wave(x, rate, phase))


def diagonals(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return slanted stripes."""
    return _hard(_wave((x + y) / math.sqrt(2), rate, phase))


def checks(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return a chequerboard."""
    across = torch.sin(math.pi * (1.9 * rate * x + phase))
    return _hard(1.5 * across * torch.sin(math.pi * (1.9 * rate * y + 2 * phase)))


def dots(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return dots on a staggered lattice."""
    turn = math.pi * 1.45 * rate
    return _hard(torch.cos(turn * (x + y) + phase) * torch.cos(turn * (x - y) - phase) - 0.35)


def rings(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return circles about the centre."""
    return _hard(_wave(torch.hypot(x, y), rate, phase))


def rays(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return eight sectors about the centre."""
    return _hard(torch.sin(4 * torch.atan2(y, x) + 2 * math.pi * phase))


def halves(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return two colours, one above the other."""
    return _hard(3.0 * (y - 0.3 * (phase - 0.5)))


def rim(x: Tensor, y: Tensor, depth: Tensor, rate: Tensor, phase: Tensor) -> Tensor:
    """Return a border of the second colour along the outline."""
    return _hard(5.0 * (depth + 0.16 * rate))


FILLS: dict[str, Fill] = {
    "plain": plain,
    "rows": rows,
    "columns": columns,
    "diagonals": diagonals,
    "checks": checks,
    "dots": dots,
    "rings": rings,
    "rays": rays,
    "halves": halves,
    "rim": rim,
}
