"""Source images in whatever form a user has them, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

import torch
from torch import Tensor

from multipool.core.images import ImageSet

_BATCH = 250


def is_pair(source: object) -> TypeGuard[tuple[Any, Any]]:
    """Tell a pair of arrays, images and labels, from two batches of (images, labels)."""
    if not isinstance(source, tuple) or len(source) != 2:
        return False
    lengths = {len(part) if hasattr(part, "__len__") else -1 for part in source}
    return len(lengths) == 1 and not any(isinstance(part, (tuple, list)) for part in source)


def batches(source: object, name: str = "source") -> Iterator[Tensor]:
    """Yield batches of images: of a loader, a tensor ``(N, C, H, W)``, an ``ImageSet``, a pair.

    ``name`` is what the caller's user calls it.
    """
    if isinstance(source, ImageSet):
        source = source.images
    if is_pair(source):
        source = torch.as_tensor(source[0])
    if isinstance(source, Tensor):
        yield from source.split(_BATCH)
        return
    if not isinstance(source, Iterable):
        known = "an iterable of (images, labels) batches, a tensor or a pair of arrays"
        or_saved = ", or a statistics file" if name == "source" else ""
        raise ValueError(f"{name} must be {known}{or_saved}, got {type(source).__name__}")
    for item in source:
        yield torch.as_tensor(item[0] if isinstance(item, (tuple, list)) else item)
