"""Passes over the pixels of images on a CPU, in one thread: by numpy, or compiled (``pixels.c``).

numpy's say what is computed. The compiled ones add in another order, which shows in the last bits
of float64; descriptors are rounded to 2^-24 afterwards, and the 8-bit levels are the same.

torch splits an operation over threads from 32,768 numbers on. For a batch of small images that
gains nothing, and it costs 10 to 60 ms a call when other programs keep the cores busy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.memory import switch

Array = NDArray[np.float64]

_CACHED = 2**16  # numbers at a time, so that they stay in a core's cache
_DOT = 8192  # OpenBLAS takes a dot product of more than 10,000 numbers to other threads


def on_host(images: Tensor) -> bool:
    """Return whether the images are where numpy can read them."""
    return images.device.type == "cpu"


def plain(images: Tensor) -> NDArray[Any]:
    """Return a view as an array; half precision becomes float32, which is as exact."""
    images = images.detach()
    if images.dtype == torch.bfloat16:  # numpy's lack: the upper half of a float32
        halves = images.contiguous().view(torch.int16).numpy().view(np.uint16)
        return np.left_shift(halves, 16, dtype=np.uint32).view(np.float32)
    values = images.numpy()
    return values.astype(np.float32) if values.dtype == np.float16 else values


@dataclass(frozen=True)
class Look:
    """What one pass over a batch found: its moments by channel, and its pixels in 8 bits."""

    sums: Array  # (B * C,)
    squares: Array  # (B * C,)
    levels: NDArray[np.uint8]  # (B, C * H * W), round(255 x), half to even


def look(images: Tensor) -> Look | None:
    """Return moments and levels of images ``(B, C, H, W)``, all in [0, 1], by compiled code.

    None where numpy has to do it: other types than float32, images that are elsewhere or not in
    one piece, pixels out of range. Whoever made the bank knows whether there is compiled code.
    """
    fits = on_host(images) and images.dtype == torch.float32 and images.is_contiguous()
    if not fits or images.numel() == 0:
        return None
    batch, channels = images.shape[:2]
    values = images.detach().view(batch * channels, -1).numpy()
    levels = np.empty(values.shape, dtype=np.uint8)
    found = np.empty((len(values), 2))
    if not switch.passes.look(values, levels, found):
        return None
    return Look(found[:, 0], found[:, 1], levels.reshape(batch, -1))


def extent(values: NDArray[Any]) -> Array:
    """Return the smallest and the largest number ``(2,)``, both NaN if there is one."""
    # Two passes of numpy take half as long as torch's one.
    return np.array((values.min(), values.max()), dtype=np.float64)


def moments(values: NDArray[Any]) -> tuple[Array, Array]:
    """Return the sums and the sums of squares ``(R,)`` of rows ``(R, n)``, uint8 or float."""
    count, size = values.shape
    sums, squares, ones = np.empty(count), np.empty(count), np.ones(size)
    step = max(1, _CACHED // size)
    exact = np.empty((min(step, count), size))  # used again and again
    for start in range(0, count, step):
        part = values[start : start + step]
        rows = exact[: len(part)]
        np.copyto(rows, unit(part))
        sums[start : start + step] = _dots(rows, ones)
        squares[start : start + step] = _dots(rows, rows)
    return sums, squares


def unit(values: NDArray[Any]) -> NDArray[Any]:
    """Return pixels in [0, 1]: 8-bit ones are divided by 255 in float32, as everywhere."""
    return np.divide(values, 255, dtype=np.float32) if values.dtype == np.uint8 else values


def eight_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return round(255 x) of float pixels in [0, 1], half to even."""
    flat, stored = values.reshape(-1), np.empty(values.size, dtype=np.uint8)
    scaled, top = np.empty(min(_CACHED, flat.size), dtype=flat.dtype), flat.dtype.type(255)
    for start in range(0, flat.size, _CACHED):
        part = flat[start : start + _CACHED]
        levels = np.multiply(part, top, out=scaled[: len(part)])
        np.copyto(stored[start : start + _CACHED], np.rint(levels, out=levels), casting="unsafe")
    return stored.reshape(values.shape)


def _dots(a: Array, b: Array) -> Array:
    """Return dot products over the last axis, ``(R, n)`` by ``(R, n)`` or ``(n,)``.

    Each is a call of its own, so that it does not depend on how many there are.
    """
    found = _dot(a[:, :_DOT], b[..., :_DOT])
    for start in range(_DOT, a.shape[1], _DOT):
        found += _dot(a[:, start : start + _DOT], b[..., start : start + _DOT])
    return found


def _by_matmul(a: Array, b: Array) -> Array:
    return np.asarray((a[:, None, :] @ b[..., :, None])[:, 0, 0])


_dot: Callable[[Array, Array], Array] = getattr(np, "vecdot", _by_matmul)  # since numpy 2.0
