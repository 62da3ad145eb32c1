"""Corrupt a batch: the table of corruptions, and the one function that applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.core import lookup
from multipool.data.corruptions.blur import (
    defocus_blur,
    gaussian_blur,
    glass_blur,
    motion_blur,
    zoom_blur,
)
from multipool.data.corruptions.digital import (
    brightness,
    contrast,
    elastic_transform,
    jpeg_compression,
    pixelate,
    saturate,
)
from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.noise import (
    gaussian_noise,
    impulse_noise,
    shot_noise,
    speckle_noise,
)
from multipool.data.corruptions.parameters import PARAMETER_SETS, ParameterSet, nearest_set
from multipool.data.corruptions.spatter import spatter
from multipool.data.corruptions.weather import fog, frost, snow

Corruption = Callable[[Tensor, ParameterSet, int, Draws], Tensor]
"""uint8 ``(B, H, W, C)`` to values 0 to 255 of that shape, cut off by the caller."""

CORRUPTIONS: dict[str, Corruption] = {
    "motion_blur": motion_blur,
    "snow": snow,
    "fog": fog,
    "shot_noise": shot_noise,
    "defocus_blur": defocus_blur,
    "contrast": contrast,
    "zoom_blur": zoom_blur,
    "brightness": brightness,
    "frost": frost,
    "elastic_transform": elastic_transform,
    "glass_blur": glass_blur,
    "gaussian_noise": gaussian_noise,
    "pixelate": pixelate,
    "jpeg_compression": jpeg_compression,
    "impulse_noise": impulse_noise,
    "speckle_noise": speckle_noise,
    "gaussian_blur": gaussian_blur,
    "spatter": spatter,
    "saturate": saturate,
}
COMMON = tuple(CORRUPTIONS)[:15]
EXTRA = tuple(CORRUPTIONS)[15:]

_SMALLEST = 8  # px
_CHUNK = {"cpu": 1 << 18, "cuda": 1 << 23}  # pixels at a time


@overload
def corrupt(
    images: Tensor, name: str, severity: int = 5, seed: int = 0, *, parameters: str | None = None
) -> Tensor: ...
@overload
def corrupt(
    images: NDArray[np.uint8],
    name: str,
    severity: int = 5,
    seed: int = 0,
    *,
    parameters: str | None = None,
) -> NDArray[np.uint8]: ...
def corrupt(
    images: Tensor | NDArray[np.uint8],
    name: str,
    severity: int = 5,
    seed: int = 0,
    *,
    parameters: str | None = None,
) -> Tensor | NDArray[np.uint8]:
    """Return corrupted copies of uint8 images ``(B, H, W, C)``, of the same type and device.

    The same arguments give the same bytes. Every purpose of a random number has its own stream
    per seed, corruption and severity, read in image order: the first images of a batch come out
    the same however many follow.

    Args:
        images: RGB or grey (``C`` 3 or 1), at least 8 px a side; an array or a tensor.
        name: a key of ``CORRUPTIONS``.
        severity: 1 to 5.
        seed: not negative.
        parameters: ``"cifar-c"``, ``"tiny-imagenet-c"`` or ``"imagenet-c"``; by default the set
            made for the nearest size (32, 64 or 224 px).

    >>> grey = np.full((1, 32, 32, 3), 100, dtype=np.uint8)
    >>> int(corrupt(grey, "brightness", severity=1)[0, 0, 0, 0])  # 5 % brighter
    112
    """
    batch = _checked(images, severity, seed)
    effect = lookup(CORRUPTIONS, name, "corruption")
    height, width = batch.shape[1:3]
    if parameters is None:
        chosen = nearest_set(PARAMETER_SETS, height, width)
    else:
        chosen = lookup(PARAMETER_SETS, parameters, "parameter set")
    draws = Draws(seed, name, severity, batch.device)
    out = torch.empty_like(batch)
    with torch.no_grad():
        for rows in _chunks(batch):
            out[rows] = _whole_levels(effect(batch[rows], chosen, severity, draws))
    return out if isinstance(images, Tensor) else out.numpy()


def _checked(images: object, severity: int, seed: int) -> Tensor:
    """Return the images as a contiguous tensor, or say what is wrong."""
    if not isinstance(severity, (int, np.integer)) or severity not in range(1, 6):
        raise ValueError(f"severity must be 1 to 5, got {severity!r}")
    if isinstance(seed, (int, np.integer)) and seed < 0:  # what is no number, draws refuse
        raise ValueError(f"seed must not be negative, got {seed}")
    if not isinstance(images, Tensor | np.ndarray):
        raise ValueError(f"images must be an array or a tensor, got {type(images).__name__}")
    kind = str(images.dtype).removeprefix("torch.")
    if kind != "uint8":
        raise ValueError(f"images must be uint8, got {kind}; multiply by 255, round and convert")
    if images.ndim != 4 or images.shape[3] not in (1, 3):
        raise ValueError(
            f"images must have shape (B, H, W, 3) or (B, H, W, 1), got {tuple(images.shape)}"
        )
    if min(images.shape[1:3]) < _SMALLEST:
        raise ValueError(
            f"images must be at least {_SMALLEST} px a side, got {images.shape[1]} x "
            f"{images.shape[2]}"
        )
    if isinstance(images, np.ndarray):
        # Torch warns of arrays that cannot be written to, such as files mapped into memory.
        own = np.ascontiguousarray(images)
        return torch.from_numpy(own if own.flags.writeable else own.copy())
    return images.contiguous()


def _chunks(batch: Tensor) -> Iterator[slice]:
    """Cut the batch into pieces of bounded memory; the pieces do not show in the result."""
    pixels = batch.shape[1] * batch.shape[2]
    step = max(_CHUNK.get(batch.device.type, _CHUNK["cpu"]) // pixels, 1)
    for start in range(0, len(batch), step):
        yield slice(start, start + step)


def _whole_levels(values: Tensor) -> Tensor:
    """Return uint8: cut to 0 to 255 and rounded down, as published.

    A thousandth is added first: single precision leaves 99.9999 where double has 100.
    """
    if values.dtype == torch.uint8:
        return values
    return values.clamp(0, 255).add_(1e-3).to(torch.uint8)
