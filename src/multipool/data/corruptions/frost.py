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

from multipool.core import numpy_generator

# The published script draws from the first five of its six photographs.
_PHOTOGRAPHS = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
_SIDE = 384


@dataclass(frozen=True)
class Ice:
    """Statistics of one published photograph that its drawing shares.

    ``mean`` and ``std`` are those of red, green and blue. The others are fitted: the power of its
    detail is flat up to the frequency ``knee`` (cycles per px) and falls with ``slope`` beyond,
    ``haze`` is the share of slow changes; ``streak`` is the crystals' length over their width.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    knee: float
    slope: float
    haze: float
    streak: float


# The second and the third photograph are the same one.
_ICE = (
    Ice((77.7, 149.1, 165.7), (26.9, 16.5, 15.3), 0.1, 4.5, 1.6, 2.0),
    Ice((200.8, 205.4, 214.5), (21.4, 22.1, 22.6), 0.06, 3.5, 0.8, 8.0),
    Ice((200.8, 205.4, 214.5), (21.4, 22.1, 22.6), 0.06, 3.5, 0.8, 8.0),
    Ice((137.6, 152.8, 165.2), (28.5, 28.5, 29.9), 0.1, 4.5, 0.6, 3.0),
    Ice((112.4, 123.4, 134.8), (44.4, 43.3, 41.7), 0.1, 3.5, 1.2, 6.0),
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
        return tuple(draw_ice(ice) for ice in _ICE)
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


@lru_cache(maxsize=8)
def draw_ice(ice: Ice) -> Tensor:
    """Draw ice crystals as uint8 ``(384, 384, 3)``, the same for the same argument.

    Noise is stretched in eight directions, each direction rules in its own patches, and ridges of
    the noise become needles. Colour: the given mean and standard deviation.
    """
    generator = numpy_generator(_SIDE, repr(ice))
    haze = _spectrum(3.0)
    needles, total = torch.zeros(_SIDE, _SIDE), torch.zeros(_SIDE, _SIDE)
    for turn in range(8):
        patch = torch.exp(2.5 * _field(generator, haze))
        grain = _field(generator, _spectrum(ice.slope, ice.knee, np.pi * turn / 8, ice.streak))
        needles += patch * (0.8 - grain.abs()) * (1 if turn % 2 else -1)
        total += patch
    field = _standard(_standard(needles / total) + ice.haze * _field(generator, haze))
    colour = field[..., None] * torch.tensor(ice.std) + torch.tensor(ice.mean)
    return colour.clamp(0, 255).round().byte()


def _spectrum(slope: float, knee: float = 0.0, angle: float = 0.0, streak: float = 1.0) -> Tensor:
    """Return amplitudes whose square falls as frequency to minus ``slope`` beyond ``knee``.

    ``streak`` shortens waves along ``angle``: what they add up to is stretched that way.
    """
    down, right = torch.fft.fftfreq(_SIDE)[:, None], torch.fft.rfftfreq(_SIDE)
    along = (np.cos(angle) * right + np.sin(angle) * down) * streak
    across = np.cos(angle) * down - np.sin(angle) * right
    square = along**2 + across**2 + knee**2
    square[0, 0] = torch.inf  # no constant part
    return square ** (-slope / 4)


def _field(generator: np.random.Generator, spectrum: Tensor) -> Tensor:
    """Return a random field ``(384, 384)`` of variance 1 with this spectrum."""
    noise = torch.from_numpy(generator.standard_normal((_SIDE, _SIDE), dtype=np.float32))
    return _standard(torch.fft.irfft2(torch.fft.rfft2(noise) * spectrum, s=(_SIDE, _SIDE)))


def _standard(field: Tensor) -> Tensor:
    """Return the field with mean 0 and standard deviation 1."""
    return (field - field.mean()) / field.std()
