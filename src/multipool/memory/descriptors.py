"""What an image looks like, as a short vector (Sec. 3.2, Eq. 2; Table 3 compares them).

A descriptor is a function of images ``(B, C, H, W)``, float in [0, 1] or uint8, to ``(B, D)`` in
float64.
``feature`` is the exception: its vectors come from the caller, so its function sees those.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from multipool.core import as_float
from multipool.memory.pixels import moments, on_host, plain

Descriptor = Callable[[Tensor], Tensor]

_GRID = 2.0**24


def on_grid(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to multiples of 2^-24: then sums are exact in any order.

    >>> float(on_grid(np.array(0.1)) * 2**24)
    1677722.0
    """
    with np.errstate(all="ignore"):  # what is not finite is refused later
        return np.asarray(np.rint(vectors * _GRID) / _GRID)


def pixel(images: Tensor) -> Tensor:
    """Return mean and biased variance of every channel, interleaved: D = 2C (Eq. 2).

    Eq. 2 writes sigma and the text says variance; this is the variance.

    >>> pixel(torch.tensor([[[[0.0, 1.0]]]])).tolist()
    [[0.5, 0.25]]
    """
    if not on_host(images):
        exact = as_float(images).double().flatten(2)  # (B, C, H*W)
        spread, centre = torch.var_mean(exact, dim=2, correction=0)
        return torch.stack((centre, spread), dim=2).flatten(1)
    size = images[0, 0].numel()
    with np.errstate(all="ignore"):  # the range check refuses NaN and infinity later
        sums, squares = moments(plain(images).reshape(-1, size))
        return from_moments(sums, squares, images.shape)


def from_moments(
    sums: NDArray[np.float64], squares: NDArray[np.float64], shape: torch.Size
) -> Tensor:
    """Return ``pixel`` of images ``(B, C, H, W)`` of which these sums ``(B * C,)`` are known."""
    size = shape[2] * shape[3]
    mean = sums / size  # (B*C,)
    both = np.stack((mean, squares / size - mean * mean), axis=1)
    return torch.from_numpy(both.reshape(shape[0], 2 * shape[1]))


def spatial_mean(images: Tensor) -> Tensor:
    """Return the image downsampled to 4 x 4 means: D = 16C."""
    return F.adaptive_avg_pool2d(as_float(images).double(), 4).flatten(1)


def histogram(images: Tensor) -> Tensor:
    """Return the share of pixels in 8 equal bins of [0, 1], channel by channel: D = 8C.

    >>> histogram(torch.tensor([[[[0.0, 1.0]]]])).tolist()
    [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5]]
    """
    # NaN has no bin; the range check refuses it later, so any bin will do until then.
    bins = (as_float(images) * 8).nan_to_num().clamp(0, 7).long().flatten(2)  # (B, C, H*W)
    counts = torch.zeros(*bins.shape[:2], 8, dtype=torch.float64, device=images.device)
    ones = torch.ones((), dtype=torch.float64, device=images.device).expand(bins.shape)
    return (counts.scatter_add_(2, bins, ones) / bins.shape[2]).flatten(1)


def feature(features: Tensor) -> Tensor:
    """Return the caller's penultimate features ``(B, D)`` as they are."""
    return features.double()


DESCRIPTORS: dict[str, Descriptor] = {
    "pixel": pixel,
    "spatial_mean": spatial_mean,
    "histogram": histogram,
    "feature": feature,
}
