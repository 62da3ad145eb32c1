"""Whether the images of one pool come from two domains at once, as in a mixed stream.

Two Gaussians with one covariance are fitted to some of the images and tried on the others; what
counts is how much likelier these become, so that a split is never an accident of the fit. Features
have long tails, which would pass for a second domain: they are squashed first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from multipool.methods.multipool.rules import Floats

STARTS = 12
_STEPS = 40
_NEAR = (0.15, 0.3, 0.5)  # shares of the points that a fit begins from
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
    rows = np.ascontiguousarray(points.T)  # (D, N): to sort along memory takes half the time
    gaps = rows - _medians(rows)
    scale = 1.4826 * _medians(np.abs(gaps)) + 1e-9
    return np.ascontiguousarray((np.tanh(gaps / scale / width) * width).T)


def _medians(rows: Floats) -> Floats:
    """Return the median of each row, ``(D, N)`` to ``(D, 1)``."""
    ordered, half = np.sort(rows, axis=1), rows.shape[1] // 2
    low = ordered[:, half - 1 + rows.shape[1] % 2]
    return np.asarray((low + ordered[:, half]) / 2)[:, None]


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
    white = _whitener((1 - share) * covariance + share * np.diag(np.diag(covariance)))
    axis = _best_axis((fitted - centre) @ white, rng)
    if axis is None or axis.gain((held_out - centre) @ (white @ axis.direction)) < least:
        return None
    return axis.first((bent - centre) @ (white @ axis.direction))


def _whitener(covariance: Floats) -> Floats:
    """Return W ``(D, D)`` so that ``x @ W`` has unit covariance; up to a turn, which is no matter.

    By Cholesky's way, at a tenth of the price, where no direction is without any variance.
    """
    try:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)).T)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-12)))


def _best_axis(points: Floats, rng: np.random.Generator) -> Axis | None:
    """Return the likeliest of several fits, each begun from the neighbours of one point."""
    drawn = [(rng.integers(len(points)), rng.choice(_NEAR)) for _ in range(STARTS)]
    chosen, shares = np.array([c for c, _ in drawn]), np.array([s for _, s in drawn])
    lengths = (points**2).sum(axis=1)
    gaps = lengths[chosen, None] + lengths - 2 * points[chosen] @ points.T  # (S, N)
    near = gaps < _quantiles(gaps, shares)[:, None]
    best: Axis | None = None
    for axis in _fit(points, near.astype(np.float64)):
        if axis is not None and (best is None or axis.likelihood > best.likelihood):
            best = axis
    return best


def _quantiles(rows: Floats, shares: Floats) -> Floats:
    """Return a quantile of each row, ``(S, N)`` and ``(S,)`` to ``(S,)``, as ``np.quantile``."""
    ordered = np.sort(rows, axis=1)
    places = shares * (rows.shape[1] - 1)
    below = np.floor(places).astype(np.int64)
    each = np.arange(len(rows))
    low, high = ordered[each, below], ordered[each, np.minimum(below + 1, rows.shape[1] - 1)]
    return np.asarray(low + (high - low) * (places - below))


def _fit(points: Floats, first: Floats) -> list[Axis | None]:
    """Run EM on whitened points ``(N, D)`` from each of several starts ``(S, N)`` at once.

    The total covariance of the points is the identity. The covariance inside is then
    I - p (1-p) d d' for means that lie d apart, and Fisher's direction is d itself: each step
    costs two products. A start that loses one of its domains ends without an axis.
    """
    found: list[Axis | None] = [None] * len(first)
    going, total = np.arange(len(first)), points.sum(axis=0)
    for step in range(_STEPS):
        share = first.mean(axis=1)  # (S,)
        there = (share > _RARE) & (share < 1 - _RARE)
        going, first, share = going[there], first[there], share[there, None]
        if not len(going):
            break
        sums = first @ points  # (S, D)
        one = sums / first.sum(axis=1, keepdims=True)
        two = (total - sums) / (1 - first).sum(axis=1, keepdims=True)
        gap = one - two
        taken = np.minimum(share * (1 - share) * (gap**2).sum(axis=1, keepdims=True), 0.98)
        middle = ((one + two) / 2 * gap).sum(axis=1, keepdims=True)
        odds = (gap @ points.T - middle) / (1 - taken) + np.log(share / (1 - share))
        moved = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
        done = (np.abs(moved - first).max(axis=1) < 1e-3) | (step == _STEPS - 1)
        for i in np.flatnonzero(done).tolist():
            found[going[i]] = _axis(points, one[i], two[i], float(moved[i].mean()))
        going, first = going[~done], moved[~done]
    return found


def _axis(points: Floats, one: Floats, two: Floats, share: float) -> Axis | None:
    """Return the axis through two means that a fit has found, if neither is a few outliers'."""
    if not _RARE < share < 1 - _RARE:
        return None
    gap = one - two
    direction = gap / np.linalg.norm(gap)
    along = points @ direction
    inside = max(float(along.var()) - share * (1 - share) * float(gap @ gap), 0.02)
    axis = Axis(direction, (float(one @ direction), float(two @ direction)), share, inside, 0.0)
    return replace(axis, likelihood=axis.gain(along))
