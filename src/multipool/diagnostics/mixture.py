"""Gaussian mixtures fitted by expectation-maximisation, many data sets at once.

One call fits P data sets of the same size: the windows of a stream differ in nothing but their
numbers, and one batched call is many times faster than a call each. Everything is float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor

from multipool.core import unknown

COVARIANCES = ("diag", "full")
_MOST_NUMBERS = 2**21  # of an intermediate result; larger batches are fitted in parts
_TINY = 1e-12
_CANDIDATES = 3  # drawn for each centre; the one that helps most is taken
_ROUNDS = 8  # of k-means, at most
_ALL_TAKEN = 1e-300  # squared distances that add up to no more


@dataclass(frozen=True)
class FitConfig:
    """How a mixture is fitted, on data of about unit variance.

    ``floor`` is added to the variances, so that no component collapses onto equal points.
    ``starts`` initialisations each run ``trial`` iterations; the likeliest goes on until the mean
    log-likelihood gains less than ``tolerance``, for at most ``iterations``.
    """

    covariance: str = "diag"
    floor: float = 1e-3
    starts: int = 3
    trial: int = 5
    iterations: int = 100
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        if self.covariance not in COVARIANCES:
            raise unknown("covariance", self.covariance, COVARIANCES)
        if not isinstance(self.floor, Real) or not self.floor > 0:
            raise ValueError(f"floor must be greater than 0, got {self.floor!r}")
        for name in ("starts", "trial", "iterations"):
            if not isinstance(getattr(self, name), Integral) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")


@dataclass(frozen=True)
class Mixture:
    """P mixtures of K Gaussians in D dimensions; variances are ``(P, K, D)`` if diagonal."""

    weights: Tensor  # (P, K)
    means: Tensor  # (P, K, D)
    spread: Tensor  # (P, K, D) variances, or (P, K, D, D) covariances

    def joint(self, points: Tensor) -> Tensor:
        """Return ln(weight_k N(x | k)) of ``(P, N, D)`` points: ``(P, N, K)``."""
        logs = _log_diag if self.spread.ndim == 3 else _log_full
        return logs(points, self.means, self.spread) + self.weights.log()[:, None]

    def log_likelihood(self, points: Tensor) -> Tensor:
        """Return the sum of ln p(x) over each data set: ``(P,)``."""
        return self.joint(points).logsumexp(dim=2).sum(dim=1)

    def assign(self, points: Tensor) -> Tensor:
        """Return the most probable component of every point: ``(P, N)``."""
        return self.joint(points).argmax(dim=2)

    def take(self, rows: Tensor) -> Mixture:
        """Return some of the P mixtures."""
        return Mixture(self.weights[rows], self.means[rows], self.spread[rows])

    def put(self, rows: Tensor, other: Mixture) -> None:
        """Overwrite some of the P mixtures."""
        self.weights[rows], self.means[rows] = other.weights, other.means
        self.spread[rows] = other.spread


def fit(
    points: Tensor,
    components: int,
    config: FitConfig,
    generator: torch.Generator,
    hint: Mixture | None = None,
) -> Mixture:
    """Fit a mixture of ``components`` to each of the ``(P, N, D)`` data sets.

    The generator is on the CPU, whatever the device of the points. A ``hint``, mixtures
    of at most as many components, is one more start.
    """
    count, width = points.shape[1:]
    if not 1 <= components <= count:
        raise ValueError(f"components must be 1 to the {count} points given, got {components}")
    size = max(1, _MOST_NUMBERS // ((config.starts + 1) * count * components * width))
    parts = []
    for rows in torch.arange(len(points), device=points.device).split(size):
        near = None if hint is None else hint.take(rows)
        parts.append(_fit(points[rows], components, config, generator, near))
    return Mixture(*(torch.cat(t) for t in zip(*map(_tensors, parts), strict=True)))


def parameters(components: int, width: Tensor, covariance: str) -> Tensor:
    """Return the free parameters of a mixture in ``width`` dimensions, as BIC counts them.

    >>> int(parameters(2, torch.tensor(3), "full")), int(parameters(2, torch.tensor(3), "diag"))
    (19, 13)
    """
    spread = width if covariance == "diag" else width * (width + 1) // 2
    return components * (width + spread) + components - 1


def _tensors(mixture: Mixture) -> tuple[Tensor, Tensor, Tensor]:
    return mixture.weights, mixture.means, mixture.spread


def _fit(
    points: Tensor,
    components: int,
    config: FitConfig,
    generator: torch.Generator,
    hint: Mixture | None,
) -> Mixture:
    """Try several starts for a few iterations, and finish the likeliest of each data set."""
    starts = 1 if components == 1 else config.starts
    tried = points.repeat_interleave(starts, dim=0)  # (P * starts, N, D)
    member = seed_members(tried, components, generator).reshape(-1, starts, points.shape[1])
    if hint is not None and components > 1:
        member = torch.cat((member, hint.assign(points)[:, None]), dim=1)
        starts += 1
        tried = points.repeat_interleave(starts, dim=0)
    shares = torch.nn.functional.one_hot(member.flatten(0, 1), components).double()
    mixture = _maximise(tried, shares, config)
    if starts > 1:
        for _ in range(config.trial):
            mixture = _step(tried, mixture, config)[0]
        score = mixture.log_likelihood(tried).reshape(-1, starts)
        best = score.argmax(dim=1) + starts * torch.arange(len(points), device=points.device)
        mixture = mixture.take(best)
    return _finish(points, mixture, config)


def _finish(points: Tensor, mixture: Mixture, config: FitConfig) -> Mixture:
    """Iterate until nothing is gained; data sets that are done wait for no one."""
    running = torch.arange(len(points), device=points.device)
    before = torch.full((len(points),), -math.inf, dtype=points.dtype, device=points.device)
    for _ in range(config.iterations):
        better, level = _step(points[running], mixture.take(running), config)
        mixture.put(running, better)
        gained = level - before[running] > config.tolerance
        before[running] = level
        running = running[gained]
        if len(running) == 0:
            break
    return mixture


def _step(points: Tensor, mixture: Mixture, config: FitConfig) -> tuple[Mixture, Tensor]:
    """Do one iteration; return the new mixture and the old one's mean log-likelihood ``(P,)``."""
    joint = mixture.joint(points)
    total = joint.logsumexp(dim=2, keepdim=True)
    return _maximise(points, (joint - total).exp(), config), total.mean(dim=(1, 2))


def _maximise(points: Tensor, shares: Tensor, config: FitConfig) -> Mixture:
    """Return the mixture that fits best to the components' shares ``(P, N, K)`` of the points."""
    mass = shares.sum(dim=1) + _TINY  # (P, K)
    part = shares.transpose(1, 2) / mass[:, :, None]  # (P, K, N)
    means = part @ points
    if config.covariance == "diag":
        # Data have unit variance, so the difference of squares loses nothing that matters.
        spread = (part @ points.square() - means.square()).clamp(min=0) + config.floor
    else:
        off = points[:, None] - means[:, :, None]  # (P, K, N, D)
        spread = (off * part[..., None]).transpose(2, 3) @ off
        spread.diagonal(dim1=2, dim2=3).add_(config.floor)
    return Mixture(mass / mass.sum(dim=1, keepdim=True), means, spread)


def _log_diag(points: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    scale = 1 / variances  # (P, K, D)
    distance = points.square() @ scale.transpose(1, 2)
    distance = distance - 2 * points @ (means * scale).transpose(1, 2)
    distance = distance + (means.square() * scale).sum(dim=2)[:, None]
    constant = variances.log().sum(dim=2) + points.shape[2] * math.log(2 * math.pi)
    return -0.5 * (distance.clamp(min=0) + constant[:, None])


def _log_full(points: Tensor, means: Tensor, covariances: Tensor) -> Tensor:
    lower = torch.linalg.cholesky(covariances)  # (P, K, D, D)
    off = (points[:, None] - means[:, :, None]).transpose(2, 3)  # (P, K, D, N)
    scaled = torch.linalg.solve_triangular(lower, off, upper=False)
    distance = scaled.square().sum(dim=2)  # (P, K, N)
    size = 2 * lower.diagonal(dim1=2, dim2=3).log().sum(dim=2)  # (P, K)
    constant = size + points.shape[2] * math.log(2 * math.pi)
    return -0.5 * (distance + constant[:, :, None]).transpose(1, 2)


def seed_members(points: Tensor, components: int, generator: torch.Generator) -> Tensor:
    """Return a first component for every point of ``(P, N, D)``: ``(P, N)`` int64.

    Centres are drawn as greedy k-means++ does (Arthur and Vassilvitskii, 2007), then moved by
    k-means. The generator is on the CPU.
    """
    centres = _spread(points, components, generator)  # (P, K, D)
    member = _nearest(points, centres)
    for _ in range(_ROUNDS if components > 1 else 0):
        shares = torch.nn.functional.one_hot(member, components).to(points.dtype)  # (P, N, K)
        mass = shares.sum(dim=1)[:, :, None]
        moved = shares.transpose(1, 2) @ points / mass.clamp(min=1)
        centres = torch.where(mass > 0, moved, centres)  # an empty one stays where it was
        moved_to = _nearest(points, centres)
        if torch.equal(moved_to, member):
            break
        member = moved_to
    return member


def _spread(points: Tensor, components: int, generator: torch.Generator) -> Tensor:
    """Draw centres, each with a probability that grows with its distance to those before."""
    sets, count, _ = points.shape
    rows = torch.arange(sets, device=points.device)
    first = torch.randint(count, (sets,), generator=generator).to(points.device)
    chosen = [points[rows, first]]
    gap = (points - chosen[0][:, None]).square().sum(dim=2)  # (P, N)
    for _ in range(components - 1):
        # Where all points are taken, any of them does.
        odds = torch.where(gap.sum(dim=1, keepdim=True) > _ALL_TAKEN, gap, torch.ones_like(gap))
        drawn = torch.multinomial(odds.cpu(), _CANDIDATES, replacement=True, generator=generator)
        tried = points[rows[:, None], drawn.to(points.device)]  # (P, candidates, D)
        gaps = torch.minimum(gap[:, None], _squared(tried, points))
        best = gaps.sum(dim=2).argmin(dim=1)
        chosen.append(tried[rows, best])
        gap = gaps[rows, best]
    return torch.stack(chosen, dim=1)


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    return _squared(centres, points).argmin(dim=1)


def _squared(centres: Tensor, points: Tensor) -> Tensor:
    """Return squared distances ``(P, K, N)``."""
    cross = centres @ points.transpose(1, 2)
    lengths = centres.square().sum(dim=2)[:, :, None] + points.square().sum(dim=2)[:, None]
    return (lengths - 2 * cross).clamp(min=0)
