"""Means and statistics over some of the samples, without indexing: no host decision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.ops.branch import Branch
from multipool.ops.moments import normalise
from multipool.ops.network import Group, Network
from multipool.ops.normalise import LayerState, batch


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return sum mask v / max(1, sum mask) over samples, ``(B, ...)`` to ``(...)``.

    >>> masked_mean(torch.tensor([1.0, 5.0, 3.0]), torch.tensor([True, False, True]))
    tensor(2.)
    >>> masked_mean(torch.ones(2), torch.zeros(2, dtype=torch.bool))
    tensor(0.)
    """
    weights = mask.to(values.dtype)
    # Not a product with 0: a sample left out may well be infinite.
    kept = torch.where(mask.view(-1, *[1] * (values.ndim - 1)), values, 0.0)
    return kept.sum(dim=0) / weights.sum().clamp_min(1)


@dataclass(frozen=True)
class MaskedBatch:
    """The policy BATCH of the rows in ``mask`` ``(B,)`` alone, at the size of the whole batch.

    Those rows come out, and pass gradients back, as if the others were not there; the others are
    normalised by their statistics. For graphs, whose sizes must not depend on values.
    """

    mask: Tensor

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x``; a single value a channel keeps the stored statistics."""
        dims = [d for d in range(x.ndim) if d != 1]
        rows = self.mask.to(torch.float32).view(-1, *[1] * (x.ndim - 1))
        count = rows.sum() * (x.numel() // (x.shape[0] * x.shape[1]))
        wide, share = x.float(), rows / count.clamp_min(1)
        mean = (wide * share).sum(dim=dims)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        var = ((wide - mean.view(shape)).square() * share).sum(dim=dims)
        enough = count > 1
        mean, var = torch.where(enough, mean, state.mean), torch.where(enough, var, state.var)
        return normalise(x, mean, var, state)


def run_some(network: Network, images: Tensor, branch: Branch, mask: Tensor) -> Tensor:
    """Return the logits ``(B, L)`` of the rows in ``mask``, normalised among themselves (BATCH).

    A GPU runs all rows and masks the statistics, which a graph can hold; a CPU, where the size of
    a pass is its price, runs those rows and leaves 0 for the others.
    """
    if images.is_cuda:
        return network.run(Group(images, branch, MaskedBatch(mask)))[0]
    rows = mask.nonzero().squeeze(1)
    nothing = images.new_zeros(len(images), network.num_classes or 0)
    if len(rows) == 0:
        return nothing
    return nothing.index_copy(0, rows, network.run(Group(images[rows], branch, batch))[0])
