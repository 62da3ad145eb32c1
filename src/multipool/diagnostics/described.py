"""Descriptors of a stream, however it is given, read only where they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multipool.core import as_float, check_images, lookup
from multipool.data import Stream
from multipool.memory import DESCRIPTORS

# A Stream; images (S, C, H, W); vectors (S, D), described already; or batches of either, as they
# are or first in a tuple.
Given = Stream | Tensor | np.ndarray[Any, np.dtype[Any]] | Iterable[Any]
_AT_ONCE = 512  # images described in one call


class Described:
    """A stream as descriptors ``(count, D)`` in float64 on the host."""

    def __init__(self, count: int, read: Callable[[int, int], Tensor]) -> None:
        self.count = count
        self.read = read  # first sample, one past the last -> (samples, D)

    @classmethod
    def of(cls, given: Given, descriptor: str) -> Described:
        """Return the descriptors of whatever was given, or say what is wrong with it."""
        lookup(DESCRIPTORS, descriptor, "descriptor")
        if isinstance(given, Stream):
            stream = given
            return cls(stream.samples, lambda first, last: _slice(stream, first, last, descriptor))
        vectors = describe(given, descriptor)
        return cls(len(vectors), lambda first, last: vectors[first:last])


def describe(given: Given, descriptor: str = "pixel") -> Tensor:
    """Return the descriptors ``(S, D)`` of images, float64 on the host.

    Vectors ``(S, D)`` count as described already, whatever the ``descriptor``; features of a
    network must come so.
    """
    function = lookup(DESCRIPTORS, descriptor, "descriptor")
    if isinstance(given, np.ndarray):
        given = torch.from_numpy(np.ascontiguousarray(given))
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise ValueError(
            "a stream must be images (S, C, H, W), descriptors (S, D) or batches of them, "
            f"got {type(given).__name__}"
        )
    if not isinstance(given, Tensor):
        parts = [describe(_images(batch), descriptor) for batch in given]
        if not parts:
            raise ValueError("the stream must hold at least one sample, got none")
        return torch.cat(parts)
    if given.ndim == 2:
        return _vectors(given)
    images = check_images(given.detach())
    if descriptor == "feature":
        raise ValueError(
            "features cannot be computed from images here; pass them as vectors (S, D), "
            f"got images {tuple(given.shape)}"
        )
    parts = [function(as_float(part)).cpu() for part in images.split(_AT_ONCE)]
    return torch.cat(parts).double()


def _vectors(given: Tensor) -> Tensor:
    if 0 in given.shape:
        raise ValueError(
            f"descriptors must have at least one row and column, got {tuple(given.shape)}"
        )
    vectors = given.detach().cpu().double()
    if not bool(vectors.isfinite().all()):
        raise ValueError("descriptors must be finite, got NaN or infinity; drop those samples")
    return vectors


def _images(batch: object) -> Any:  # noqa: ANN401
    """Return what a batch of a stream or a loader holds first."""
    if isinstance(batch, tuple | list):
        return batch[0]
    return getattr(batch, "images", batch)


def _slice(stream: Stream, first: int, last: int, descriptor: str) -> Tensor:
    size = stream.config.batch_size
    batches = range(first // size, -(-last // size))
    vectors = torch.cat([describe(stream[index].images, descriptor) for index in batches])
    begin = first - batches.start * size
    return vectors[begin : begin + last - first]
