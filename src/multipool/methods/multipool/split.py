"""Whether the images of one pool come from two domains at once, as in a mixed stream.

Two Gaussians with one covariance are fitted to some of the images and tried on the others; what
counts is how much likelier these become, so that a split is never an accident of the fit. Features
have long tails, which would pass for a second domain: they are squashed first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multipool.methods.multipool.rules import Floats

STARTS = 12
_STEPS = 40
_RARE = 0.04  # a share below this is a few outliers, not a domain


@dataclass(frozen=True)
class Axis:
    """Two Gaussians along the direction that separates them, in whitened units."""

    direction: Floats  # (D,) of unit length
    means: tuple[float, float]
    share: float  # of the first
    variance: float
    likelihood: float  # mean log-likelihood over that of one Gaussian

    def gain(self, along: Floats) -> float:
        """Return by how many nats a sample two Gaussians are likelier than one, ``(N,)`` places."""
        spread = max(float(along.var()), 1e-12)
        one = -((along - along.mean()) ** 2) / (2 * spread) - 0.5 * np.log(spread)
        both = np.logaddexp(*self._logs(along)) - 0.5 * np.log(self.variance)
        return float((both - one).mean())

    def first(self, along: Floats) -> npt.NDArray[np.bool_]:
        """Return which places ``(N,)`` are likelier the first Gaussian's."""
        one, two = self._logs(along)
        return np.asarray(one > two)

    def _logs(self, along: Floats) -> tuple[Floats, Floats]:
        scale = 2 * self.variance
        one = np.log(self.share) - (along - self.means[0]) ** 2 / scale
        two = np.log(1 - self.share) - (along - self.means[1]) ** 2 / scale
        return one, two


def squash(points: Floats, width: float = 2.5) -> Floats:
    """Return points ``(N, D)`` about their median in robust units, tails bent in at ``width``."""
    centre = np.median(points, axis=0)
    scale = 1.4826 * np.median(np.abs(points - centre), axis=0) + 1e-9
    return np.asarray(np.tanh((points - centre) / scale / width) * width)


def two_domains(
    points: Floats, rng: np.random.Generator, least: float
) -> npt.NDArray[np.bool_] | None:
    """Return which points ``(N, D)`` are of a second domain, or None if there is none.

    ``least`` nats a sample must be gained on the third of the points that the fit has not seen.
    """
    bent = squash(points)
    order = rng.permutation(len(bent))
    cut = 2 * len(bent) // 3
    fitted, held_out = bent[order[:cut]], bent[order[cut:]]
    centre = fitted.mean(axis=0)
    width = bent.shape[1]
    covariance = np.cov(fitted.T)
    share = max(0.02, 0.5 * width / (width + cut))
    covariance = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance)
    white = vectors / np.sqrt(np.maximum(values, 1e-12))
    axis = _best_axis((fitted - centre) @ white, rng)
    if axis is None or axis.gain((held_out - centre) @ white @ axis.direction) < least:
        return None
    return axis.first((bent - centre) @ white @ axis.direction)


def _best_axis(points: Floats, rng: np.random.Generator) -> Axis | None:
    """Return the likeliest of several fits, each begun from the neighbours of one point."""
    best: Axis | None = None
    for _ in range(STARTS):
        gaps = ((points - points[rng.integers(len(points))]) ** 2).sum(axis=1)
        near = gaps < np.quantile(gaps, rng.choice([0.15, 0.3, 0.5]))
        axis = _fit(points, near.astype(np.float64))
        if axis is not None and (best is None or axis.likelihood > best.likelihood):
            best = axis
    return best


def _fit(points: Floats, first: Floats) -> Axis | None:
    """Run EM on whitened points ``(N, D)``, whose total covariance is the identity.

    The covariance inside is then I - p (1-p) d d' for means that lie d apart, and Fisher's
    direction is d itself: each step costs two products.
    """
    share = float(first.mean())
    for _ in range(_STEPS):
        if not _RARE < share < 1 - _RARE:
            return None
        one = first @ points / first.sum()
        two = (1 - first) @ points / (1 - first).sum()
        gap = one - two
        taken = min(share * (1 - share) * float(gap @ gap), 0.98)
        odds = (points - (one + two) / 2) @ gap / (1 - taken) + np.log(share / (1 - share))
        moved = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
        done = float(np.abs(moved - first).max()) < 1e-3
        first, share = moved, float(moved.mean())
        if done:
            break
    if not _RARE < share < 1 - _RARE:
        return None
    direction = gap / np.linalg.norm(gap)
    along = points @ direction
    inside = max(float(along.var()) - share * (1 - share) * float(gap @ gap), 0.02)
    axis = Axis(direction, (float(one @ direction), float(two @ direction)), share, inside, 0.0)
    return Axis(direction, axis.means, share, inside, axis.gain(along))
