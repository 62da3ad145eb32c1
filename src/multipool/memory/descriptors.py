"""What an image looks like, as a short vector (Sec. 3.2, Eq. 2; Table 3 compares them).

A descriptor is a function of float images ``(B, C, H, W)`` in [0, 1] to ``(B, D)`` in float64.
``feature`` is the exception: its vectors come from the caller, so its function sees those.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Descriptor = Callable[[Tensor], Tensor]

_GRID = 2.0**24
# Under this many numbers torch works in one thread and in cache: 1.3 to 6 times faster on a CPU.
_CHUNK = 32768


def on_grid(vectors: Tensor) -> Tensor:
    """Round to multiples of 2^-24: then sums are exact in any order.

    >>> float(on_grid(torch.tensor(0.1, dtype=torch.float64)) * 2**24)
    1677722.0
    """
    return (vectors.double() * _GRID).round_() / _GRID


def pixel(images: Tensor) -> Tensor:
    """Return mean and biased variance of every channel, interleaved: D = 2C (Eq. 2).

    Eq. 2 writes sigma and the text says variance; this is the variance.

    >>> pixel(torch.tensor([[[[0.0, 1.0]]]])).tolist()
    [[0.5, 0.25]]
    """
    flat = images.flatten(2)  # (B, C, H*W)
    rows = max(1, _CHUNK // flat[0].numel()) if images.device.type == "cpu" else len(images)
    sums, squares = [], []
    for part in flat.split(rows):
        exact = part.double() if part.dtype != torch.float64 else part.clone()
        sums.append(exact.sum(dim=2))
        squares.append(exact.mul_(exact).sum(dim=2))
    mean = torch.cat(sums) / flat.shape[2]  # (B, C)
    variance = torch.cat(squares) / flat.shape[2] - mean * mean
    return torch.stack((mean, variance), dim=2).flatten(1)


def spatial_mean(images: Tensor) -> Tensor:
    """Return the image downsampled to 4 x 4 means: D = 16C."""
    return F.adaptive_avg_pool2d(images.double(), 4).flatten(1)


def histogram(images: Tensor) -> Tensor:
    """Return the share of pixels in 8 equal bins of [0, 1], channel by channel: D = 8C.

    >>> histogram(torch.tensor([[[[0.0, 1.0]]]])).tolist()
    [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5]]
    """
    # NaN has no bin; the range check refuses it later, so any bin will do until then.
    bins = (images * 8).nan_to_num().clamp(0, 7).long().flatten(2)  # (B, C, H*W)
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
