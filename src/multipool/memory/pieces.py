"""Work on images a few at a time on a CPU, all at once on an accelerator."""

from __future__ import annotations

import torch
from torch import Tensor

# torch splits an operation over threads from this many numbers on. For a batch of small images
# that gains nothing, and it costs 10 to 60 ms a call when other programs keep the cores busy.
_ONE_THREAD = 32768


def rows_at_once(images: Tensor) -> int:
    """Return how many images of ``(B, C, H, W)`` to work on at a time."""
    if images.device.type != "cpu":
        return max(1, len(images))
    return max(1, _ONE_THREAD // max(1, images[:1].numel()))


def pieces(images: Tensor) -> tuple[Tensor, ...]:
    """Return the images in pieces to be worked on one after the other."""
    return images.split(rows_at_once(images))


def extent(images: Tensor) -> Tensor:
    """Return smallest and largest number ``(2,)`` in float64, NaN if there is one."""
    bounds = [torch.stack(torch.aminmax(part)) for part in pieces(images)]
    both = torch.stack(bounds).double()  # (pieces, 2)
    return torch.stack((both[:, 0].amin(), both[:, 1].amax()))
