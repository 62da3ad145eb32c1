"""Two Gaussians with one covariance, fitted by EM: by compiled code, which is optional, or numpy.

The compiled code (``gaussians.c``) lets go of Python's lock, so a search in another thread holds up
nobody. Both do the same steps; sums are added in another order, so they agree to rounding.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from multipool.methods.multipool.rules import Bools, Floats

try:
    from multipool.methods.multipool import _gaussians
except ImportError:  # no compiler when the package was installed
    _gaussians = None  # type: ignore[assignment]

VERSION = 1  # as in gaussians.c, and so are these two
_STEPS = 40
_RARE = 0.04  # a share below this is a few outliers, not a domain


@dataclass(frozen=True)
class Axis:
    """Two Gaussians along the direction that separates them, in whitened units."""

    direction: Floats  # (D,) of unit length
    means: tuple[float, float]
    share: float  # of the first
    variance: float

    def gain(self, along: Floats) -> float:
        """Return by how many nats a sample two Gaussians are likelier than one, ``(N,)`` places."""
        spread = max(float(along.var()), 1e-12)
        one = -((along - along.mean()) ** 2) / (2 * spread) - 0.5 * np.log(spread)
        both = np.logaddexp(*self._logs(along)) - 0.5 * np.log(self.variance)
        return float((both - one).mean())

    def first(self, along: Floats) -> Bools:
        """Return which places ``(N,)`` are likelier the first Gaussian's."""
        one, two = self._logs(along)
        return np.asarray(one > two)

    def _logs(self, along: Floats) -> tuple[Floats, Floats]:
        scale = 2 * self.variance
        one = np.log(self.share) - (along - self.means[0]) ** 2 / scale
        two = np.log(1 - self.share) - (along - self.means[1]) ** 2 / scale
        return one, two


@dataclass(frozen=True)
class Fits:
    """Where each of several starts led: two means, the share of the first, and what they gain."""

    means: Floats  # (S, 2, D)
    shares: Floats  # (S,)
    likelihoods: Floats  # (S,) gain in nats a sample; -inf where one of the domains was lost

    def best(self, points: Floats) -> Axis | None:
        """Return the likeliest as an axis through the points ``(N, D)``, if there is any."""
        chosen = int(self.likelihoods.argmax())
        if not np.isfinite(self.likelihoods[chosen]):
            return None
        one, two = self.means[chosen, 0], self.means[chosen, 1]
        return _axis(points, one, two, float(self.shares[chosen]))[0]


def available() -> bool:
    """Return whether this version's fit was compiled and not switched off.

    ``MULTIPOOL_COMPILED=0`` in the environment switches it off.
    """
    current = getattr(_gaussians, "VERSION", None) == VERSION
    return current and os.environ.get("MULTIPOOL_COMPILED") != "0"


def fit(points: Floats, starts: Floats) -> Fits:
    """Run EM on whitened points ``(N, D)`` from each of several starts ``(S, N)`` at once.

    A start says how far each point is the first domain's. The total covariance of the points is
    the identity. The covariance inside is then I - p (1-p) d d' for means that lie d apart, and
    Fisher's direction is d itself: each step costs two products.
    """
    if not available():
        return _fit(points, starts)
    count = len(starts)
    found = Fits(np.zeros((count, 2, points.shape[1])), np.zeros(count), np.zeros(count))
    given = np.ascontiguousarray(points), np.ascontiguousarray(starts)
    _gaussians.fit(*given, found.means, found.shares, found.likelihoods)
    return found


def _fit(points: Floats, first: Floats) -> Fits:
    count = len(first)
    means, shares = np.zeros((count, 2, points.shape[1])), np.zeros(count)
    likelihoods = np.full(count, -np.inf)
    going, total = np.arange(count), points.sum(axis=0)
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
            start, share_now = going[i], float(moved[i].mean())
            means[start], shares[start] = (one[i], two[i]), share_now
            if _RARE < share_now < 1 - _RARE:
                axis, along = _axis(points, one[i], two[i], share_now)
                likelihoods[start] = axis.gain(along)
        going, first = going[~done], moved[~done]
    return Fits(means, shares, likelihoods)


def _axis(points: Floats, one: Floats, two: Floats, share: float) -> tuple[Axis, Floats]:
    """Return the axis through two means ``(D,)``, and where the points lie along it, ``(N,)``."""
    gap = one - two
    direction = gap / np.linalg.norm(gap)
    along = points @ direction
    inside = max(float(along.var()) - share * (1 - share) * float(gap @ gap), 0.02)
    axis = Axis(direction, (float(one @ direction), float(two @ direction)), share, inside)
    return axis, along
