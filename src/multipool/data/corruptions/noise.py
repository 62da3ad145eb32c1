"""Noise: Gaussian, shot, impulse and speckle; every channel of every pixel on its own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.parameters import ParameterSet


def gaussian_noise(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Add normal noise of the same strength everywhere."""
    noise = draws.normal("noise", *images.shape)
    return noise.mul_(255 * sets.gaussian_noise[severity - 1]).add_(images)


def speckle_noise(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Add normal noise in proportion to the value."""
    noise = draws.normal("noise", *images.shape)
    return noise.mul_(sets.speckle_noise[severity - 1]).add_(1).mul_(images)


def shot_noise(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Count photons: Poisson numbers whose mean is the value times the photons of white."""
    table = _poisson_quantiles(sets.shot_noise[severity - 1]).to(images.device)
    rows = images.to(torch.int64) << 16
    return table.take(rows.add_(draws.words("photons", *images.shape)))


def impulse_noise(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Turn a share of the values black or white, half of them each."""
    limit = round(65536 * sets.impulse_noise[severity - 1])
    chance = draws.words("flips", *images.shape)
    noisy = torch.where(chance < limit, 255, images)
    return torch.where(chance < limit // 2, 0, noisy)


@lru_cache(maxsize=4)
def _poisson_quantiles(photons: int) -> Tensor:
    """Return, for each value 0 to 255, 65,536 quantiles of the grey level that it becomes.

    Flat, uint8, ``256 * 65536``. A Poisson number costs 0.1 microseconds and more to draw, a look
    into this table a tenth of it; probabilities are rounded to 1 part in 65,536.
    """
    counts = np.arange(photons + 1)  # more photons than white are white
    mean = np.arange(1, 256)[:, None] / 255 * photons
    log_factorial = np.cumsum(np.log(np.maximum(counts, 1)))
    mass = np.exp(counts * np.log(mean) - mean - log_factorial)  # (255, photons + 1)
    edges = np.rint(np.cumsum(mass, axis=1) * 65536).astype(np.int64).clip(0, 65536)
    edges[:, -1] = 65536
    grey = (counts / photons * 255 + 1e-6).astype(np.uint8)
    lines = [np.zeros(65536, dtype=np.uint8)]  # black stays black
    lines += [np.repeat(grey, np.diff(line, prepend=0)) for line in edges]
    return torch.from_numpy(np.concatenate(lines))
