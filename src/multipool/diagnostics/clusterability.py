"""How many modes a stream shows at a time (Fig. 1a): Gaussian mixtures, chosen by BIC."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multipool.core import torch_generator
from multipool.diagnostics.described import Described, Given
from multipool.diagnostics.mixture import FitConfig, Mixture, fit, parameters

# Of a column of descriptors in [0, 1]: what varies less than this does not vary.
_CONSTANT = 1e-9


@dataclass(frozen=True)
class Clusterability:
    """K* of every window of a stream; a stream of one mode has a mean of 1."""

    descriptor: str
    covariance: str
    window: int  # samples
    starts: tuple[int, ...]  # first sample of each window
    best: tuple[int, ...]  # K* of each window
    bic: tuple[tuple[float, ...], ...]  # of each window, K = 1, 2, ...; less is better

    @property
    def mean(self) -> float:
        """Return the mean of K* over the windows."""
        return sum(self.best) / len(self.best)

    @property
    def std(self) -> float:
        """Return the standard deviation of K* over the windows; 0 for one window."""
        return float(np.std(self.best))

    @property
    def histogram(self) -> dict[int, int]:
        """Return in how many windows each K* was found, ascending."""
        return dict(sorted(Counter(self.best).items()))


def clusterability(
    stream: Given,
    descriptor: str = "pixel",
    *,
    window: int = 256,
    stride: int | None = None,
    max_components: int = 15,
    max_windows: int = 40,
    covariance: str = "diag",
    floor: float = 1e-3,
    starts: int = 3,
    seed: int = 0,
) -> Clusterability:
    """Find K*, the number of Gaussians that describes each sliding window best by BIC.

    The paper names neither window nor covariance. Windows of 256 samples and diagonal covariances
    were chosen because they give its figures on CIFAR-100-C; with them, numbers that vary together
    within one mode count as several. ``full`` ones do not, and find less.

    Args:
        stream: a :class:`multipool.data.Stream`, images ``(S, C, H, W)``, batches of images, or
            descriptors ``(S, D)``.
        descriptor: a key of :data:`multipool.memory.DESCRIPTORS`; ``feature`` needs descriptors.
        window: samples of a window; a shorter stream is one window.
        stride: samples between the beginnings of two windows; ``None`` is half a window.
        max_components: the highest K tried; never more than a window has different samples.
        max_windows: if there are more, that many are looked at, spread evenly.
        covariance: ``diag`` or ``full``.
        floor: added to the variances of the standardised descriptors.
        starts: initialisations of each mixture.
        seed: seed of the initialisations.

    >>> dark, light = torch.zeros(40, 3, 4, 4), torch.ones(40, 3, 4, 4)
    >>> clusterability(torch.cat((dark, light))).best
    (2,)
    """
    config = FitConfig(covariance=covariance, floor=floor, starts=starts)
    least = {"window": (window, 2), "max_components": (max_components, 1)}
    least |= {"max_windows": (max_windows, 1), "stride": (1 if stride is None else stride, 1)}
    for name, (value, low) in least.items():
        if not isinstance(value, int) or value < low:
            raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")
    described = Described.of(stream, descriptor)
    size = min(window, described.count)
    begins = _begins(described.count, size, stride or max(1, window // 2), max_windows)
    points = torch.stack([described.read(first, first + size) for first in begins])
    bic = _bic(points, max_components, config, torch_generator(seed))
    best = tuple(1 + row.index(min(row)) for row in bic)
    return Clusterability(descriptor, covariance, size, tuple(begins), best, bic)


def _begins(count: int, size: int, stride: int, most: int) -> list[int]:
    """Return where the windows begin: all of them, or ``most`` spread evenly.

    >>> _begins(10, 4, 2, 40), _begins(1000, 4, 1, 3)
    ([0, 2, 4, 6], [0, 498, 996])
    """
    begins = list(range(0, count - size + 1, stride))
    if len(begins) <= most:
        return begins
    picked = np.linspace(0, len(begins) - 1, most).round().astype(int)
    return [begins[i] for i in picked]


def _bic(
    points: Tensor, most: int, config: FitConfig, generator: torch.Generator
) -> tuple[tuple[float, ...], ...]:
    """Return BIC = -2 ln L + parameters ln N of windows ``(W, N, D)`` for K = 1, 2, ..."""
    distinct = torch.tensor([len(rows.unique(dim=0)) for rows in points])  # (W,)
    scaled, width = standardise(points)
    size = points.shape[1]
    found: list[list[float]] = [[] for _ in points]
    hint: Mixture | None = None
    # Downwards: a mixture of too many components finds every mode, and merged it is a good start.
    for components in range(min(most, int(distinct.max())), 0, -1):
        mixture = fit(scaled, components, config, generator, hint)
        free = parameters(components, width, config.covariance)
        values = -2 * mixture.log_likelihood(scaled) + free * math.log(size)
        for row in (distinct >= components).nonzero()[:, 0].tolist():
            found[row].insert(0, float(values[row]))
        hint = merge_closest(mixture) if components > 1 else None
    return tuple(tuple(values) for values in found)


def standardise(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return data sets ``(P, N, D)`` with mean 0 and variance 1, and how many columns vary.

    Columns that do not vary become 0: they add the same to every likelihood, and are not counted
    as dimensions ``(P,)``.
    """
    spread = points.std(dim=1, keepdim=True, unbiased=False)
    varies = spread > _CONSTANT
    scaled = (points - points.mean(dim=1, keepdim=True)) / spread.where(
        varies, torch.ones_like(spread)
    )
    return scaled * varies, varies.sum(dim=(1, 2))


def merge_closest(mixture: Mixture) -> Mixture:
    """Merge two of the K components of each of the P mixtures, keeping their joint moments.

    One component less changes a mixture least so (Runnalls, 2007).

    The pair is the one with the least bound on the divergence that merging causes, which weighs
    how far apart two components are and how little they hold.
    """
    weights, means, spread = mixture.weights, mixture.means, mixture.spread
    count = weights.shape[1]
    left, right = torch.triu_indices(count, count, 1, device=weights.device)  # (pairs,)
    mass, middle, joint = _merged(mixture, left, right)
    size = _log_size(spread)
    cost = mass * _log_size(joint) - weights[:, left] * size[:, left]
    best = (cost - weights[:, right] * size[:, right]).argmin(dim=1)  # (P,)
    rows = torch.arange(len(weights), device=weights.device)
    kept = torch.ones_like(weights, dtype=torch.bool)
    kept[rows, right[best]] = False
    parts = []
    for old, new in ((weights, mass), (means, middle), (spread, joint)):
        changed = old.clone()
        changed[rows, left[best]] = new[rows, best]
        parts.append(changed[kept].reshape(len(rows), count - 1, *old.shape[2:]))
    return Mixture(*parts)


def _merged(mixture: Mixture, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return weight, mean and spread of every pair as one component: ``(P, pairs, ...)``."""
    mass = mixture.weights[:, left] + mixture.weights[:, right]
    share = (mixture.weights[:, left] / mass)[..., None]
    off = mixture.means[:, left] - mixture.means[:, right]
    middle = mixture.means[:, right] + share * off
    between = share * (1 - share)
    if mixture.spread.ndim == 3:
        outer = off.square() * between
    else:
        share, between = share[..., None], between[..., None]
        outer = off[..., :, None] * off[..., None, :] * between
    spread = share * mixture.spread[:, left] + (1 - share) * mixture.spread[:, right]
    return mass, middle, spread + outer


def _log_size(spread: Tensor) -> Tensor:
    """Return the log-determinants of variances ``(..., D)`` or covariances ``(..., D, D)``."""
    if spread.ndim == 3:
        return spread.log().sum(dim=2)
    lower = torch.linalg.cholesky(spread)
    return 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
