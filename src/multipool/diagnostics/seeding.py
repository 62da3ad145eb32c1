"""Where to begin fitting a mixture: k-means from centres that lie far apart."""

from __future__ import annotations

import torch
from torch import Tensor

_CANDIDATES = 3  # drawn for each centre; the one that helps most is taken
_ROUNDS = 8
_TINY = 1e-300


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
        odds = torch.where(gap.sum(dim=1, keepdim=True) > _TINY, gap, torch.ones_like(gap))
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
