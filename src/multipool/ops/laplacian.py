"""Make the predictions of a batch agree between neighbours (LAME's Laplacian refinement).

Boudiaf et al., Parameter-free Online Test-time Adaptation, CVPR 2022.
"""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-20


def knn_affinity(features: Tensor, neighbours: int) -> Tensor:
    """Return W ``(B, B)``: 1 where column j is among the nearest of row i, which is not its own.

    ``features`` are ``(B, D)``; distances are between their directions. Not symmetric.
    """
    distances = _squared_distances(features)
    # The published code drops the first of the sorted list, which a duplicate may have taken.
    distances.fill_diagonal_(-1.0)
    count = min(neighbours, len(features) - 1)
    nearest = distances.topk(count + 1, largest=False).indices[:, 1:]
    return torch.zeros_like(distances).scatter_(1, nearest, 1.0)


def rbf_affinity(features: Tensor, neighbours: int) -> Tensor:
    """Return W ``(B, B)`` = exp(-d^2 / 2 s^2), s the mean distance to the k-th nearest.

    The sample itself counts as its nearest. One sample alone has no scale, and no neighbours.
    """
    if len(features) == 1:
        return features.new_zeros(1, 1)
    distances = _squared_distances(features).sqrt()
    count = min(neighbours, len(features))
    width = distances.topk(count, largest=False).values[:, -1].mean()
    # Images all alike are at distance 0 on a scale of 0: affinity 1, not 0/0.
    return torch.exp(-(distances / width.clamp_min(_TINY)).square() / 2)


AFFINITIES = {"knn": knn_affinity, "rbf": rbf_affinity}


def refine(logits: Tensor, affinity: Tensor, steps: int = 100, tolerance: float = 1e-8) -> Tensor:
    """Return probabilities Y ``(B, L)`` near softmax(z) on which neighbours agree.

    Iterates Y = softmax(A + W Y) from softmax(A), A = log(p + 1e-10), until the energy
    sum(-A Y - (W Y_old) Y + Y log Y) changes by no more than ``tolerance`` of itself, from the
    third iteration on. The test stays on the device; only a CPU, which has no queue to wait for,
    leaves the loop early.
    """
    unary = (logits.softmax(dim=1) + 1e-10).log()
    y = unary.softmax(dim=1)
    done = torch.zeros((), dtype=torch.bool, device=logits.device)
    old = torch.full((), torch.inf, device=logits.device)
    for step in range(steps):
        pairwise = affinity @ y
        y = torch.where(done, y, (unary + pairwise).softmax(dim=1))
        energy = (y * (y.clamp_min(_TINY).log() - unary - pairwise)).sum()
        if step > 1:
            done = done | ((energy - old).abs() <= tolerance * old.abs())
            if not logits.is_cuda and bool(done):
                break
        old = energy
    return y


def _squared_distances(features: Tensor) -> Tensor:
    """Return |f_i - f_j|^2 ``(B, B)`` between unit vectors, with a diagonal of 0."""
    # Features after a ReLU point almost the same way; in float32 the difference would be noise.
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    return (2 - 2 * unit @ unit.T).clamp_min(0).fill_diagonal_(0.0).float()
