"""The random view that mean-teacher methods train their student on (methods.md 5.6).

The published pipeline pads to twice the side, warps, blurs, crops. With its ranges the crop never
reaches the fill, and sampling a replicate-padded image equals border-clamped sampling of the image
itself; so only the central window is computed, on a quarter of the pixels, with the same result.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.ops import colour, fused_view

_COLOURS = (
    colour.brightness,
    colour.contrast,
    colour.saturation,
    colour.hue,
    colour.gamma,
)
_COLOUR_RANGES = ((0.6, 1.4), (0.7, 1.3), (0.5, 1.5), (-0.06, 0.06), (0.7, 1.3))
_BLUR_RADIUS = 2
_PARTS = 8  # of a batch, for the threads of a CPU
_NOTHING = 1e-9  # a share of the blur too small to change a float of order 1


@dataclass(frozen=True)
class ViewParameters:
    """One draw of the augmentation for R images (R = 1: shared by the whole batch)."""

    order: tuple[int, ...]  # of the five colour operations, shared
    colours: np.ndarray  # (5, R) factors, in the order of the operations' table
    angle: np.ndarray  # (R,) degrees
    scale: np.ndarray  # (R,)
    shift: np.ndarray  # (R, 2) whole pixels, x and y
    sigma: np.ndarray  # (R,) of the blur, pixels
    flip: np.ndarray  # (R,) bool


@dataclass(frozen=True)
class View:
    """Augmentation A1, or A2 (reflection, no blur, no noise) with ``reflect=True``.

    ``per_sample`` draws parameters for each image: stronger than published, so off by default.
    """

    reflect: bool = False
    noise: float = 0.005
    per_sample: bool = False

    def draw(self, count: int, side: int, generator: np.random.Generator) -> ViewParameters:
        """Draw the parameters for ``count`` images of ``side`` pixels."""
        rows = count if self.per_sample else 1
        reach = 2 * side / 16  # an eighth of the side: a sixteenth of the padded one
        return ViewParameters(
            order=tuple(int(i) for i in generator.permutation(len(_COLOURS))),
            colours=np.stack([generator.uniform(low, high, rows) for low, high in _COLOUR_RANGES]),
            angle=generator.uniform(-15, 15, rows),
            scale=generator.uniform(0.9, 1.1, rows),
            shift=np.round(generator.uniform(-reach, reach, (rows, 2))),
            sigma=generator.uniform(0.001, 0.5, rows),
            flip=generator.random(rows) < 0.5,
        )

    def apply(self, images: Tensor, drawn: ViewParameters, noise: Tensor | None) -> Tensor:
        """Return the view of ``images`` ``(B, C, H, W)`` that ``drawn`` describes.

        ``noise`` is standard normal of the same shape; ``None`` adds none.
        """
        if (
            noise is not None
            and not (self.reflect or self.per_sample)
            and fused_view.usable(images)
        ):
            matrix, taps = _inverse_affine(drawn)[0].tolist(), _taps(drawn.sigma)[:3, 0].tolist()
            factors = drawn.colours[:, 0].tolist()
            return fused_view.applied(images, drawn.order, factors, matrix, taps, noise, self.noise)
        # Channel by channel in memory: the colours work on whole channels.
        x = images.contiguous().clamp(0, 1)
        for i in drawn.order:
            x = _COLOURS[i](x, _factor(drawn.colours[i], x))
        x = self._warp(x, drawn)
        if not self.reflect:
            x = _blur(x, drawn.sigma)
        if noise is not None and not self.reflect:
            x.add_(noise, alpha=self.noise)
        return x.clamp_(0, 1)

    def __call__(
        self, images: Tensor, parameters: np.random.Generator, noise: torch.Generator
    ) -> Tensor:
        """Draw once and apply; both generators advance."""
        drawn = self.draw(len(images), images.shape[-1], parameters)
        if self.reflect:
            return self.apply(images, drawn, None)
        grain = torch.randn(images.shape, generator=noise, device=images.device, dtype=images.dtype)
        return self.apply(images, drawn, grain)

    def _warp(self, x: Tensor, drawn: ViewParameters) -> Tensor:
        """Rotate, scale, shift and flip; A1 keeps a margin for the blur."""
        height, width = x.shape[-2:]
        margin = 0 if self.reflect else _BLUR_RADIUS
        rows, columns = height + 2 * margin, width + 2 * margin
        # Pixels to [-1, 1]: reflection is about pixel centres, clamping about pixel edges.
        units = (max(width - 1, 1), max(height - 1, 1)) if self.reflect else (width, height)
        unit = np.array(units)[:, None] / 2
        theta = torch.from_numpy(_inverse_affine(drawn) / unit).to(x.dtype).to(x.device)
        places = _places(rows, columns, x.dtype, x.device)
        grid = (places @ theta.transpose(1, 2)).view(-1, rows, columns, 2)
        mode = "reflection" if self.reflect else "border"
        # One grid for all: images stand as channels, whose places the CPU works out together.
        together = len(grid) == 1 and not x.is_cuda
        parts = math.gcd(len(x), _PARTS) if together else len(x)
        folded = x.view(parts, -1, height, width)
        warped = F.grid_sample(
            folded,
            grid.expand(parts, -1, -1, -1),
            padding_mode=mode,
            align_corners=self.reflect,
        )
        return warped.view(*x.shape[:2], rows, columns)


@functools.lru_cache(maxsize=8)
def _places(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return x, y and 1 of every pixel about the centre, ``(rows * columns, 3)``."""
    xs = torch.arange(columns, dtype=dtype, device=device) - (columns - 1) / 2
    ys = torch.arange(rows, dtype=dtype, device=device) - (rows - 1) / 2
    xs, ys = xs.expand(rows, -1), ys[:, None].expand(-1, columns)
    return torch.stack([xs, ys, torch.ones_like(xs)], dim=-1).view(-1, 3)


def _factor(values: np.ndarray, x: Tensor) -> float | Tensor:
    """Return one number for the whole batch, or one per image as ``(B, 1, 1, 1)``."""
    if len(values) == 1:
        return float(values[0])
    return torch.from_numpy(values).to(x.dtype).to(x.device).view(-1, 1, 1, 1)


def _inverse_affine(drawn: ViewParameters) -> np.ndarray:
    """Return ``(R, 2, 3)``: from output pixels about the centre to input pixels, flip first."""
    turn = np.deg2rad(drawn.angle)
    cos, sin = np.cos(turn) / drawn.scale, np.sin(turn) / drawn.scale
    linear = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], -2)  # (R, 2, 2)
    offset = -(linear @ drawn.shift[:, :, None])
    # The flip comes last in the pipeline, so it acts first on output coordinates.
    linear[:, :, 0] *= np.where(drawn.flip, -1.0, 1.0)[:, None]
    return np.concatenate([linear, offset], axis=2)


def _blur(x: Tensor, sigma: np.ndarray) -> Tensor:
    """Blur with five Gaussian taps in each direction; the margin of two pixels is used up."""
    kernel = _taps(sigma)
    for dim in (2, 3):
        size = x.shape[dim] - 2 * _BLUR_RADIUS
        total = _factor(kernel[_BLUR_RADIUS], x) * x.narrow(dim, _BLUR_RADIUS, size)
        for i, tap in enumerate(kernel):
            if i != _BLUR_RADIUS and tap.max() > _NOTHING:
                _add_scaled(total, x.narrow(dim, i, size), _factor(tap, x))
        x = total
    return x


def _taps(sigma: np.ndarray) -> np.ndarray:
    """Return the weights of the blur ``(5, R)``."""
    taps = np.arange(-_BLUR_RADIUS, _BLUR_RADIUS + 1)
    kernel = np.exp(-0.5 * (taps[:, None] / sigma) ** 2)
    weights: np.ndarray = kernel / kernel.sum(axis=0)
    return weights


def _add_scaled(total: Tensor, x: Tensor, factor: float | Tensor) -> None:
    """Add ``factor * x`` to ``total`` in one pass."""
    if isinstance(factor, float):
        total.add_(x, alpha=factor)
    else:
        total.addcmul_(x, factor)
