"""The ice of the corruption ``frost``: published photographs if installed, else drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

# The published script draws from the first five of its six photographs.
_PHOTOGRAPHS = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
_SIDE = 512


@dataclass(frozen=True)
class Ice:
    """Statistics of one published photograph that its drawing shares.

    ``mean`` and ``std`` are those of red, green and blue; ``slope`` says how fast the power of
    its detail falls with frequency, ``streak`` how long the crystals are against their width.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    slope: float
    streak: float


_ICE = (
    Ice((77.7, 149.1, 165.7), (26.9, 16.5, 15.3), 1.3, 2.0),
    Ice((200.8, 205.4, 214.5), (21.4, 22.1, 22.6), 1.9, 8.0),
    Ice((200.8, 205.4, 214.5), (21.4, 22.1, 22.6), 1.9, 8.0),
    Ice((137.6, 152.8, 165.2), (28.5, 28.5, 29.9), 1.3, 3.0),
    Ice((112.4, 123.4, 134.8), (44.4, 43.3, 41.7), 1.9, 6.0),
)


def frost_source() -> str:
    """Say where the ice comes from: ``"photographs"`` or ``"drawn"``."""
    return "drawn" if _photograph_folder() is None else "photographs"


@lru_cache(maxsize=8)
def frost_textures(scale: float, height: int, width: int) -> tuple[Tensor, ...]:
    """Return five textures ``(h, w, 3)``, float32 in whole levels, none below ``(height, width)``.

    ``scale`` shrinks the originals by linear interpolation without smoothing, as published;
    textures that would be too small for the image are shrunk less, or enlarged.
    """
    textures = []
    for texture in _originals():
        least = max((height + 1) / texture.shape[0], (width + 1) / texture.shape[1])
        textures.append(_rescaled(texture, max(scale, least)))
    return tuple(textures)


def _rescaled(texture: Tensor, scale: float) -> Tensor:
    """Return uint8 ``(h, w, 3)`` as float32, its sides times ``scale``."""
    planes = texture.permute(2, 0, 1)[None].float()
    if scale != 1:
        size = [max(round(side * scale), 1) for side in planes.shape[-2:]]
        planes = F.interpolate(planes, size=size, mode="bilinear", align_corners=False)
    return planes[0].permute(1, 2, 0).round().contiguous()


@lru_cache(maxsize=1)
def _originals() -> tuple[Tensor, ...]:
    """Return the five textures at full size, uint8 ``(h, w, 3)``."""
    folder = _photograph_folder()
    if folder is None:
        return tuple(draw_ice(ice, number) for number, ice in enumerate(_ICE))
    from PIL import Image

    photographs = []
    for name in _PHOTOGRAPHS:
        with Image.open(folder / name) as photograph:
            photographs.append(torch.from_numpy(np.array(photograph.convert("RGB"))))
    return tuple(photographs)


def _photograph_folder() -> Path | None:
    """Return the folder of the package ``imagecorruptions`` that holds all five, if any."""
    spec = find_spec("imagecorruptions")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "frost"
        if all((folder / name).is_file() for name in _PHOTOGRAPHS):
            return folder
    return None


def draw_ice(ice: Ice, number: int) -> Tensor:
    """Draw ice crystals as uint8 ``(512, 512, 3)``, the same for the same arguments.

    Fractal noise is stretched in eight directions, each direction rules in its own patches, and
    ridges of the noise become needles. Colour: the given mean and standard deviation.
    """
    generator = np.random.default_rng([_SIDE, number])
    needles = np.zeros((_SIDE, _SIDE))
    total = np.zeros((_SIDE, _SIDE))
    for turn in range(8):
        patch = np.exp(2.5 * _fractal(generator, 3.0))
        grain = _fractal(generator, ice.slope, np.pi * turn / 8, ice.streak)
        needles += patch * (1.5 - np.abs(grain)) * np.sign(turn % 2 - 0.5)
        total += patch
    field = needles / total + 0.5 * _fractal(generator, 2 * ice.slope)
    field = (field - field.mean()) / field.std()
    colour = field[..., None] * np.array(ice.std) + np.array(ice.mean)
    return torch.from_numpy(colour.clip(0, 255).round().astype(np.uint8))


def _fractal(
    generator: np.random.Generator, slope: float, angle: float = 0.0, streak: float = 1.0
) -> np.ndarray:
    """Return a unit-variance random field whose power falls as frequency to minus ``slope``."""
    frequency = np.fft.fftfreq(_SIDE)
    down, right = frequency[:, None], np.fft.rfftfreq(_SIDE)
    along = (np.cos(angle) * right + np.sin(angle) * down) * streak
    across = np.cos(angle) * down - np.sin(angle) * right
    distance = np.sqrt(along**2 + across**2)
    distance[0, 0] = np.inf
    spectrum = np.fft.rfft2(generator.standard_normal((_SIDE, _SIDE)))
    field = np.fft.irfft2(spectrum * distance ** (-slope / 2), s=(_SIDE, _SIDE))
    return field / field.std()
