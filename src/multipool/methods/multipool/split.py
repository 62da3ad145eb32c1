"""Whether the images of one pool come from two domains at once, as in a mixed stream.

Two Gaussians with one covariance are fitted to some of the images and tried on the others; what
counts is how much likelier these become, so that a split is never an accident of the fit. Features
have long tails, which would pass for a second domain: they are squashed first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multipool.methods.multipool.gaussians import Axis, fit
from multipool.methods.multipool.rules import Bools, Floats
from multipool.ops.host import product

STARTS = 12
_NEAR = (0.15, 0.3, 0.5)  # shares of the points that a fit begins from


def squash(points: Floats, width: float = 2.5) -> Floats:
    """Return points ``(N, D)`` about their median in robust units, tails bent in at ``width``."""
    rows = np.ascontiguousarray(points.T)  # (D, N): to sort along memory takes half the time
    ordered = np.sort(rows, axis=1)
    middle = _between(ordered, lambda rank: ordered[:, rank])
    apart = _between(ordered, lambda rank: _nearest(ordered, middle, rank))
    rows -= middle[:, None]  # in place, which takes half the time
    rows /= (1.4826 * apart + 1e-9)[:, None]
    rows /= width
    np.tanh(rows, out=rows)
    rows *= width
    return np.ascontiguousarray(rows.T)


def _between(rows: Floats, ranked: Callable[[int], Floats]) -> Floats:
    """Return the median of each row ``(D, N)``, given what has a rank, 0 the lowest, ``(D,)``."""
    count = rows.shape[1]
    low, high = ranked((count - 1) // 2), ranked(count // 2)
    return np.asarray((low + high) / 2)


def _nearest(ordered: Floats, middle: Floats, rank: int) -> Floats:
    """Return the distance from the middle ``(D,)`` that has a rank, of sorted rows ``(D, N)``.

    The nearest ones lie side by side: of all so many neighbours, those whose ends are near. That
    is quicker than to sort again.
    """
    count = ordered.shape[1]
    below = middle[:, None] - ordered[:, : count - rank]
    above = ordered[:, rank:] - middle[:, None]
    return np.asarray(np.maximum(below, above, out=below).min(axis=1))


def two_domains(points: Floats, rng: np.random.Generator, least: float) -> Bools | None:
    """Return which points ``(N, D)`` are of a second domain, or None if there is none.

    ``least`` nats a sample must be gained on the third of the points that the fit has not seen.
    """
    bent = squash(points)
    order = rng.permutation(len(bent))
    cut = 2 * len(bent) // 3
    fitted, held_out = bent[order[:cut]], bent[order[cut:]]
    centre = fitted.mean(axis=0)
    width = bent.shape[1]
    fitted -= centre
    covariance = product(fitted.T, fitted) / (cut - 1)
    share = max(0.02, 0.5 * width / (width + cut))
    white = _whitener((1 - share) * covariance + share * np.diag(np.diag(covariance)))
    axis = _best_axis(product(fitted, white), rng)
    if axis is None or axis.gain(product(held_out - centre, white @ axis.direction)) < least:
        return None
    return axis.first(product(bent - centre, white @ axis.direction))


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
    drawn = [(rng.integers(len(points)), rng.integers(len(_NEAR))) for _ in range(STARTS)]
    chosen, shares = np.array([c for c, _ in drawn]), np.array([_NEAR[s] for _, s in drawn])
    lengths = (points**2).sum(axis=1)
    gaps = lengths[chosen, None] + lengths - 2 * product(points[chosen], points.T)  # (S, N)
    near = gaps < _quantiles(gaps, shares)[:, None]
    return fit(points, near.astype(np.float64)).best(points)


def _quantiles(rows: Floats, shares: Floats) -> Floats:
    """Return a quantile of each row, ``(S, N)`` and ``(S,)`` to ``(S,)``, as ``np.quantile``."""
    ordered = np.sort(rows, axis=1)
    places = shares * (rows.shape[1] - 1)
    below = np.floor(places).astype(np.int64)
    each = np.arange(len(rows))
    low, high = ordered[each, below], ordered[each, np.minimum(below + 1, rows.shape[1] - 1)]
    return np.asarray(low + (high - low) * (places - below))
