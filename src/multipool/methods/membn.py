"""MemBN: every layer normalises by the average of a queue of recent batches' statistics.

Kang et al., MemBN: Robust Test-Time Adaptation via Batch Norm with Statistics Memory, ECCV 2024.
The layers alone, without a method that learns on top. Numbers compared with the layer in the first
author's public code (Juwon-cvlab/NOTE), which is from before the paper; nothing else is public.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.engine import Context, Kept, Method, Prediction, tensor_pass
from multipool.ops import Branch, Group, LayerState, frozen
from multipool.ops.moments import normalise, positions
from multipool.ops.normalise import batch_moments

Moments = tuple[Tensor, Tensor]  # means and variances


@dataclass(frozen=True)
class MemBNConfig:
    """Defaults of the first author's code; it has none for ``threshold``, which is our choice."""

    capacity: int = 128  # batches in the queue of each layer
    threshold: float = 3.0  # standard deviations of distance that tell of another domain
    patience: int = 10  # batches that a queue must exceed before it tells of one; a full one may
    corrected: bool = False  # count the spread between the means that are averaged as variance

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.patience < 0 or not self.threshold > 0:
            raise ValueError(
                "membn takes a capacity of at least 1, a patience of at least 0 and a threshold "
                f"above 0, got {self.capacity}, {self.patience} and {self.threshold}"
            )


class MemBN(Method):
    """Replaces the statistics of every layer by those of the last batches, mixed with the source's.

    Every layer keeps a queue of the means and variances of the last batches; the average over it
    stands for the stream, so that small batches do as well as large ones. The layer normalises by a
    mix of that average and the source's statistics, with more of the source's the farther the batch
    is from the average. A batch unusually far away tells of another domain and empties all queues.
    One forward pass a batch, no gradient.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`MemBNConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "membn")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Kang et al., MemBN: Robust Test-Time Adaptation via Batch Norm with Statistics Memory,
        ECCV 2024.
    """

    name = "membn"
    needs_norm = "batchnorm"
    normalises_by = "kept"
    Config = MemBNConfig
    one_pass = True
    self_training = False  # the statistics do not depend on what was predicted

    def __init__(self, context: Context, config: MemBNConfig) -> None:
        super().__init__(context, config)
        self.branch = self.network.require_statistics(self.name)
        channels, device = len(self.branch.statistics) // 2, self.device
        self.means = torch.zeros(config.capacity, channels, dtype=torch.float32, device=device)
        self.variances = torch.zeros(config.capacity, channels, dtype=torch.float32, device=device)
        self.counts = torch.zeros(len(self.branch.layers), dtype=torch.long, device=device)

    def keeps(self) -> Kept:
        """Return the queues, and how many batches each layer put into its own since it began."""
        return {"means": self.means, "variances": self.variances, "counts": self.counts}

    def predict(self, images: Tensor) -> Prediction:
        """Return the logits that the next step would give, and keep nothing."""
        return Prediction(self._look_pass(images)[0])

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many layers told of another domain, and the logits."""
        resets, logits = self._store_pass(images)
        return resets, logits

    @tensor_pass
    @torch.no_grad()
    def _look_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        copies = self.means.clone(), self.variances.clone(), self.counts.clone()
        norm = Queues(self.branch, *copies, self.config)
        return (self.network.run(Group(images, self.branch, norm))[0],)

    @tensor_pass
    @torch.no_grad()
    def _store_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        norm = Queues(self.branch, self.means, self.variances, self.counts, self.config)
        (logits,) = self.network.run(Group(images, self.branch, norm))
        return norm.resets, logits


class Queues:
    """The policy of one pass; one-dimensional layers keep the source's statistics.

    ``means`` and ``variances`` are ``(capacity, sum of channels)``, ``counts`` ``(layers,)``; all
    are changed in place.
    """

    def __init__(
        self, branch: Branch, means: Tensor, variances: Tensor, counts: Tensor, config: MemBNConfig
    ) -> None:
        self.counts, self.config = counts, config
        self.resets = torch.zeros((), dtype=torch.float32, device=means.device)
        widths = [len(state.mean) for state in branch.layers]
        parts = zip(means.split(widths, 1), variances.split(widths, 1), strict=True)
        self._of = {
            id(s): (i, p) for i, (s, p) in enumerate(zip(branch.layers, parts, strict=True))
        }
        self._slots = torch.arange(config.capacity, device=means.device)

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Put the batch's statistics into the queue, then normalise ``x`` by the mix."""
        if positions(x) == 1:
            return frozen(x, state)
        index, (means, variances) = self._of[id(state)]
        own = batch_moments(x)
        count = self.counts[index : index + 1]
        slot = count % self.config.capacity
        means.index_copy_(0, slot, own[0][None])
        variances.index_copy_(0, slot, own[1][None])
        count += 1
        held = self._slots < count  # (capacity,)
        memory = average((means, variances), held, self.config.corrected)
        share = source_share(own, memory, (state.mean, state.var))
        if self.config.capacity > 1:  # one batch is at no distance from its own average
            share = torch.where(count == 1, 0.5, share)
        ready = count > min(self.config.patience, self.config.capacity - 1)
        shifted = ready & departs(own, memory, (means, variances), held, self.config.threshold)
        self.counts *= ~shifted  # of every layer, those that follow in this very pass included
        self.resets += shifted.sum()
        mixed = mix((state.mean, state.var), memory, share, self.config.corrected)
        return normalise(x, *mixed, state)


def average(queue: Moments, held: Tensor, corrected: bool = False) -> Moments:
    """Return the mean ``(C,)`` each of the rows of ``(capacity, C)`` that are held.

    ``corrected``: the variance of all batches as one population, that between them included.
    """
    rows, number = held[:, None], held.sum()
    mean, var = (torch.where(rows, values, 0).sum(dim=0) / number for values in queue)
    if corrected:
        var = var + torch.where(rows, queue[0] - mean, 0).square().sum(dim=0) / number
    return mean, var


def source_share(own: Moments, memory: Moments, source: Moments) -> Tensor:
    """Return alpha ``()``: d_memory / (d_memory + d_source), how far each is from the batch.

    A distance is the sum of those of the means and of the variances.

    >>> at = lambda value: (torch.tensor([value]), torch.ones(1))
    >>> float(source_share(at(3.0), at(2.0), at(0.0)))
    0.25
    """
    to_memory, to_source = (
        (own[0] - other[0]).norm() + (own[1] - other[1]).norm() for other in (memory, source)
    )
    return to_memory / (to_memory + to_source).clamp(min=torch.finfo(to_memory.dtype).tiny)


def departs(
    own: Moments, memory: Moments, queue: Moments, held: Tensor, threshold: float
) -> Tensor:
    """Tell whether the batch is unusually far from the average, or near to it, ``()`` bool.

    Unusual: by more than ``threshold`` standard deviations of the distances that the held batches
    have, those of their means or of their standard deviations.
    """
    unusual = torch.zeros((), dtype=torch.bool, device=held.device)
    triples = zip(own, memory, queue, (False, True), strict=True)
    for batch, centre, rows, is_variance in triples:
        if is_variance:
            batch, centre, rows = batch.sqrt(), centre.sqrt(), rows.sqrt()
        distances = (rows - centre).norm(dim=1)  # (capacity,)
        mean = torch.where(held, distances, 0).sum() / held.sum()
        spread = torch.where(held, (distances - mean).square(), 0).sum() / (held.sum() - 1)
        unusual = unusual | (((batch - centre).norm() - mean).abs() > threshold * spread.sqrt())
    return unusual


def mix(source: Moments, memory: Moments, share: Tensor, corrected: bool = False) -> Moments:
    """Return the moments ``(C,)`` of a mixture with ``share`` of the source."""
    mean, var = (torch.lerp(b, a, share) for a, b in zip(source, memory, strict=True))
    if corrected:
        var = var + share * (1 - share) * (source[0] - memory[0]).square()
    return mean, var
