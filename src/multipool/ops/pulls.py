"""Penalties that pull flat parameters to where they started, with their gradients in closed form.

Parameters come as one vector ``(P,)`` cut into tensors; PeTTA counts tensors, not values, so a
small layer weighs as much as a large one. No host decision is made on device values, so that a
CUDA graph can hold these.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_TINY = 1e-8  # the usual guard of a cosine: a zero vector has cosine 0


class Cuts:
    """Where a flat vector ``(P,)`` is cut into n tensors."""

    def __init__(self, sizes: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.count = len(sizes)
        self.lengths = torch.tensor(sizes, device=device)  # (n,)
        owners = torch.repeat_interleave(torch.tensor(sizes))
        self.owner = owners.to(device)  # (P,): the tensor each value belongs to

    def sums(self, values: Tensor) -> Tensor:
        """Return each tensor's sum, ``(P,)`` to ``(n,)``, in the same order every time."""
        return torch.segment_reduce(values, "sum", lengths=self.lengths, unsafe=True)

    def spread(self, numbers: Tensor) -> Tensor:
        """Return each tensor's number at all its values, ``(n,)`` to ``(P,)``."""
        return numbers[self.owner]


def cosine_pull(values: Tensor, anchor: Tensor, cuts: Cuts) -> tuple[Tensor, Tensor]:
    """Return R = -(1/n) sum_i cos(v_i, a_i) over n tensors, and dR/dvalues ``(P,)``.

    >>> value, _ = cosine_pull(
    ...     torch.tensor([3.0, 4.0, 2.0, 0.0]), torch.tensor([3.0, 4.0, 0.0, 1.0]), Cuts([2, 2])
    ... )
    >>> float(value)  # cosines 1 and 0
    -0.5
    """
    square = cuts.sums(values * values)  # (n,)
    norms = (
        square.clamp_min(_TINY**2).sqrt() * cuts.sums(anchor * anchor).clamp_min(_TINY**2).sqrt()
    )
    cosine = cuts.sums(values * anchor) / norms
    away = torch.where(square > _TINY**2, cosine / square, torch.zeros_like(cosine))
    gradient = values * cuts.spread(away) - anchor * cuts.spread(1 / norms)
    return -cosine.mean(), gradient / cuts.count


def squared_pull(values: Tensor, anchor: Tensor, cuts: Cuts) -> tuple[Tensor, Tensor]:
    """Return (1/n) sum_i ||v_i - a_i||^2 over n tensors, and its gradient ``(P,)``."""
    gap = values - anchor
    return gap.square().sum() / cuts.count, 2 * gap / cuts.count


def no_pull(values: Tensor, anchor: Tensor, cuts: Cuts) -> tuple[Tensor, Tensor]:
    """Return zero and a zero gradient."""
    return values.new_zeros(()), torch.zeros_like(values)


PULLS = {"cosine": cosine_pull, "l2": squared_pull, "none": no_pull}
