"""Fisher weights from source images, for the methods that must not forget the source.

How much each affine parameter matters to a trained model: Kirkpatrick et al., Overcoming
catastrophic forgetting in neural networks (2017), as EATA uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.core import as_float, batches, check_images
from multipool.engine.statistics import SourceStatistics
from multipool.ops import Branch, Group, Network, batch


def fisher_weights(network: Network, branch: Branch, batches: Iterable[Tensor]) -> Tensor:
    """Return the diagonal Fisher weights ``(P,)`` of a trainable branch's affine parameters.

    Each batch of images gives the squared gradient *of the batch mean* of the cross-entropy to
    the model's own argmax, under the batch's statistics; the result is the mean over batches.
    """
    total, count = torch.zeros_like(branch.affine), 0
    for images in batches:
        with torch.enable_grad():
            (logits,) = network.run(Group(images, branch, batch))
            loss = F.cross_entropy(logits, logits.detach().argmax(dim=1))
            total += branch.gradient(loss).square()
        count += 1
    return total / max(count, 1)


def obtain_fisher(
    network: Network, branch: Branch, source: object, *, images: int, size: int, method: str
) -> Tensor:
    """Return the Fisher weights ``(P,)`` of ``branch`` from whatever the user gave as ``source``.

    Args:
        network: runs the passes.
        branch: the trainable branch, still at its source values.
        source: an iterable of (images, labels) batches or a pair of arrays; labels are not read.
        images: how many of its images to use, the first ones.
        size: images in one batch, whatever the batches of ``source``.
        method: for messages.
    """
    if isinstance(source, Mapping) and "fisher" in source:  # as an adapter's state keeps them
        found: Tensor = source["fisher"]
        if found.shape != branch.affine.shape:
            raise ValueError(
                f"the Fisher weights are of {len(found)} parameters, the model has "
                f"{len(branch.affine)}"
            )
        return found.to(network.device())
    device = network.device()
    chosen = (
        network.prepare(as_float(check_images(part).to(device)))
        for part in regroup(source_images(source, method), images, size)
    )
    return fisher_weights(network, branch, chosen)


def source_images(source: object, method: str) -> Iterator[Tensor]:
    """Return batches of images from whatever the user gave, or say that ``method`` needs them."""
    if source is None or isinstance(source, (str, Path, Mapping, SourceStatistics)):
        got = "nothing" if source is None else type(source).__name__
        raise ValueError(
            f"method '{method}' needs source images: pass source= an iterable of (images, labels) "
            f"batches or a pair of arrays, got {got}"
        )
    return batches(source)


def regroup(given: Iterable[Tensor], most: int, size: int) -> Iterator[Tensor]:
    """Yield the first ``most`` images in batches of ``size``; the last may be smaller."""
    rest, left = torch.empty(0), most
    for images in given:
        images = images[:left]
        left -= len(images)
        rest = torch.cat([rest, images]) if len(rest) else images
        while len(rest) >= size:
            yield rest[:size]
            rest = rest[size:]
        if left <= 0:
            break
    if left == most:
        raise ValueError("source must hold at least 1 image, got none")
    if len(rest):
        yield rest
