"""One component less: the pair whose merging changes a mixture least (Runnalls, 2007)."""

from __future__ import annotations

import torch
from torch import Tensor

from multipool.diagnostics.mixture import Mixture


def merge_closest(mixture: Mixture) -> Mixture:
    """Merge two of the K components of each of the P mixtures, keeping their joint moments.

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
