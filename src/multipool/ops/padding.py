"""Batches of many sizes as a few: rows that fill a batch up and count for nothing.

A CUDA graph is for one size, and so is what cuDNN finds out about a convolution. Memories hand out
batches of any size, so on a GPU they are filled up to one of two. Statistics, losses and
gradients leave the filling out and are those of the batch as it was, to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

_PARTS = (0.5, 1.0)  # of the samples asked for: with a full batch that makes three graphs


def filled(whole: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors ``(M, ...)`` filled up, and which rows count ``(B,)``: float, 1 or 0.

    On a CPU, where every row has its price, and where ``whole`` or more samples came, they are
    returned as they are, without rows. So is a single sample: it has no statistics to share.
    """
    count = len(tensors[0])
    if not tensors[0].is_cuda or not 1 < count < whole:
        return tensors
    return fill(next(size for p in _PARTS if (size := int(whole * p)) >= count), *tensors)


def fill(size: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors ``(M, ...)`` with copies of their first row up to ``size``, and the rows.

    >>> fill(3, torch.tensor([5, 6]))
    (tensor([5, 6, 5]), tensor([1., 1., 0.]))
    """
    count = len(tensors[0])
    more = [torch.cat([t, t[:1].expand(size - count, *t.shape[1:])]) for t in tensors]
    laid = [_laid_out(m, t) for m, t in zip(more, tensors, strict=True)]
    rows = torch.zeros(size, dtype=torch.float32, device=tensors[0].device)
    rows[:count] = 1.0
    return (*laid, rows)


def mean_of(values: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return the mean of ``values`` ``(B,)`` over the rows that count; None: all do.

    >>> mean_of(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([1.0, 1.0, 0.0]))
    tensor(2.)
    """
    return values.mean() if rows is None else (values * rows).sum() / rows.sum()


def _laid_out(tensor: Tensor, like: Tensor) -> Tensor:
    if like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last):
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor
