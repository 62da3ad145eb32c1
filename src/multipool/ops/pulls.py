"""Penalties that pull flat parameters to where they started, with their gradients in closed form.

Parameters come as one vector ``(P,)`` cut into tensors of ``sizes``; PeTTA counts tensors, not
values, so a small layer weighs as much as a large one.
"""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-8  # the usual guard of a cosine: a zero vector has cosine 0


def cosine_pull(values: Tensor, anchor: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return R = -(1/n) sum_i cos(v_i, a_i) over n tensors, and dR/dvalues ``(P,)``.

    >>> value, _ = cosine_pull(torch.tensor([3.0, 4.0, 2.0]), torch.tensor([3.0, 4.0, -1.0]),
    ...                        torch.tensor([2, 1]))
    >>> float(value)  # cosines 1 and -1
    0.0
    """
    dot, square, anchor_square = (
        torch.segment_reduce(t, "sum", lengths=sizes)
        for t in (values * anchor, values * values, anchor * anchor)
    )  # (n,) each
    norm = square.clamp_min(_TINY**2).sqrt()
    anchor_norm = anchor_square.clamp_min(_TINY**2).sqrt()
    cosine = dot / (norm * anchor_norm)
    toward, away = 1 / (norm * anchor_norm), torch.where(square > _TINY**2, cosine / square, 0.0)
    toward, away = (
        torch.repeat_interleave(t, sizes, output_size=len(values)) for t in (toward, away)
    )
    gradient = -(anchor * toward - values * away) / len(sizes)
    return -cosine.mean(), gradient


def squared_pull(values: Tensor, anchor: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return (1/n) sum_i ||v_i - a_i||^2 over n tensors, and its gradient ``(P,)``."""
    gap = values - anchor
    return gap.square().sum() / len(sizes), 2 * gap / len(sizes)


def no_pull(values: Tensor, anchor: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return zero and a zero gradient."""
    return values.new_zeros(()), torch.zeros_like(values)


PULLS = {"cosine": cosine_pull, "l2": squared_pull, "none": no_pull}
