"""LAME: leave the network alone and make neighbours in a batch agree.

Boudiaf et al., Parameter-free Online Test-time Adaptation, CVPR 2022. Numbers compared with
mariodoebler/test-time-adaptation, both affinities.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.core import lookup
from multipool.engine import Method, Prediction, tensor_pass
from multipool.ops.host import known_true

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


@dataclass(frozen=True)
class LAMEConfig:
    """Defaults of the code that ran the PTTA tables; ``rbf`` is the other published affinity."""

    affinity: str = "knn"  # knn or rbf
    neighbours: int = 5  # k, of each image in its batch

    def __post_init__(self) -> None:
        lookup(AFFINITIES, self.affinity, "affinity of lame")
        if self.neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {self.neighbours}")


class LAME(Method):
    """Refines the source model's probabilities within each batch; remembers nothing.

    Images of one batch that lie near each other in the space of features are pulled to the same
    answer; the network stays as it is. It helps where neighbours in the stream share a class,
    and harms where they do not.

    Its logits are log max(Y, 1e-20) of the refined probabilities Y.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`LAMEConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "lame")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Boudiaf et al., Parameter-free Online Test-time Adaptation, CVPR 2022.
    """

    name = "lame"
    reads_features = True
    Config = LAMEConfig

    def predict(self, images: Tensor) -> Prediction:
        """Return the logarithm of the refined probabilities."""
        return Prediction(self._refine_pass(images)[0])

    @tensor_pass
    def _refine_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        logits = self.network.plain(images)
        affinity = AFFINITIES[self.config.affinity](self.network.features(), self.config.neighbours)
        return (refine(logits, affinity).clamp_min(_TINY).log(),)


def refine(logits: Tensor, affinity: Tensor, steps: int = 100, tolerance: float = 1e-8) -> Tensor:
    """Return probabilities Y ``(B, L)`` near softmax(z) on which neighbours agree.

    Iterates Y = softmax(A + W Y) from softmax(A), A = log(p + 1e-10), until the energy
    sum(-A Y - (W Y_old) Y + Y log Y) changes by no more than ``tolerance`` of itself, from the
    third iteration on. The test stays on the device; only where that makes nobody wait does the
    loop end early.
    """
    unary = (logits.softmax(dim=1) + 1e-10).log()
    y = unary.softmax(dim=1)
    done = torch.zeros((), dtype=torch.bool, device=logits.device)
    old = torch.full((), torch.inf, dtype=logits.dtype, device=logits.device)
    for step in range(steps):
        pairwise = affinity @ y
        y = torch.where(done, y, (unary + pairwise).softmax(dim=1))
        energy = (y * (y.clamp_min(_TINY).log() - unary - pairwise)).sum()
        if step > 1:
            done = done | ((energy - old).abs() <= tolerance * old.abs())
            if known_true(done):
                break
        old = energy
    return y


def _squared_distances(features: Tensor) -> Tensor:
    """Return |f_i - f_j|^2 ``(B, B)`` between unit vectors, with a diagonal of 0."""
    # Features after a ReLU point almost the same way; in float32 the difference would be noise.
    unit = F.normalize(features.double(), dim=1)
    return (2 - 2 * unit @ unit.T).clamp_min(0).fill_diagonal_(0.0).float()
