"""Mix pairs of training images: mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.ops.host import sent


@dataclass(frozen=True)
class Mixed:
    """Images ``(B, 3, H, W)``, each a ``share`` of itself and the rest of its partner, if any."""

    images: Tensor
    partners: Tensor | None = None  # (B,) int64, on the device of the images
    share: float = 1.0


def mixed_loss(
    logits: Tensor, labels: Tensor, others: Tensor, share: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Return the cross-entropy of ``(B, L)`` logits against both labels ``(B,)``, by their shares.

    ``share`` ``()`` is that of ``labels``, the rest is that of ``others``.
    """
    own = F.cross_entropy(logits, labels, label_smoothing=smoothing)
    return share * own + (1 - share) * F.cross_entropy(logits, others, label_smoothing=smoothing)


def mix(images: Tensor, generator: torch.Generator, chance: float) -> Mixed:
    """Mix a batch with a shuffled copy of itself, with probability ``chance``.

    Half of the mixed batches are blended, in the others a rectangle is replaced; the share is
    uniform, Beta(1, 1), and one for the batch.
    """
    # All are drawn whatever they decide: the next batch must not depend on this one's fate.
    mixes, blends, share, row, column = torch.rand(5, generator=generator).tolist()
    partners = sent(torch.randperm(len(images), generator=generator), images.device)
    if mixes >= chance:
        return Mixed(images)
    if blends < 0.5:
        return Mixed(images * share + images[partners] * (1 - share), partners, share)
    height, width = images.shape[-2:]
    side = math.sqrt(1 - share)
    top, bottom = _span(row, side, height)
    left, right = _span(column, side, width)
    images = images.clone()
    images[:, :, top:bottom, left:right] = images[partners, :, top:bottom, left:right]
    return Mixed(images, partners, 1 - (bottom - top) * (right - left) / (height * width))


def _span(centre: float, share: float, length: int) -> tuple[int, int]:
    """Return first and last + 1 of a stretch around ``centre``, cut off at the border.

    >>> _span(0.0, 0.5, 32), _span(0.5, 0.5, 32)
    ((0, 8), (8, 24))
    """
    middle, half = int(centre * length), int(share * length) // 2
    return max(0, middle - half), min(length, middle + half)
