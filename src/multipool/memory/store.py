"""Where a bank's images lie: one preallocated tensor of slots on the images' device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.core import as_float, check_range
from multipool.memory.pieces import pieces, rows_at_once

STORAGES = ("uint8", "float")
Slots = Sequence[int] | NDArray[np.int64]


class ImageStore:
    """``slots`` images, as 8-bit integers or as the float type of the first batch.

    The buffer is made at the first write and follows the images from then on: when they come on
    another device, what is stored moves there.
    """

    def __init__(self, slots: int, storage: str) -> None:
        self.slots, self.storage = slots, storage
        self.buffer: Tensor | None = None  # (slots, C, H, W)
        self.dtype = torch.float32  # of the images handed out

    def check(self, images: Tensor) -> None:
        """Raise ``ValueError`` unless images ``(B, C, H, W)`` have the stored shape."""
        if self.buffer is not None and images.shape[1:] != self.buffer.shape[1:]:
            raise ValueError(
                f"images must have shape (B, {', '.join(map(str, self.buffer.shape[1:]))}) "
                f"as those before, got {tuple(images.shape)}"
            )

    def prepare(self, images: Tensor) -> None:
        """Make room for images like these, on their device."""
        if self.buffer is None:
            floating = images.is_floating_point()
            self.dtype = images.dtype if floating else torch.float32
            self.allocate(tuple(images.shape[1:]), images.device)
        elif self.buffer.device != images.device:
            with torch.inference_mode(False):
                self.buffer = self.buffer.to(images.device)

    def allocate(self, shape: tuple[int, ...], device: torch.device) -> None:
        """Make an empty buffer for images of one shape."""
        kind = torch.uint8 if self.storage == "uint8" else self.dtype
        # An ordinary tensor even under inference_mode: it is written to outside of it, too.
        with torch.inference_mode(False):
            self.buffer = torch.zeros(self.slots, *shape, dtype=kind, device=device)

    def write(self, slots: Sequence[int], images: Tensor, rows: Sequence[int]) -> None:
        """Put ``images[rows]`` into ``slots``: one indexed write, on a CPU one a piece."""
        buffer = self._made()
        if len(slots) == 0:
            return
        images, start = images.detach(), 0
        if len(rows) == len(images):
            parts = pieces(images)
        else:
            index = _index(rows, images.device).split(rows_at_once(images))
            parts = tuple(images.index_select(0, part) for part in index)
        for part in parts:
            _put(buffer, slots[start : start + len(part)], self._stored(part, buffer.dtype))
            start += len(part)

    def _stored(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Return images in the type of the buffer."""
        if self.storage == "float":
            return as_float(images).to(dtype)
        if images.dtype == torch.uint8:
            return images
        exact = images if images.dtype == torch.float64 else images.float()
        return _rounded(exact * 255).to(torch.int16).to(torch.uint8)  # twice as fast by int16

    def raw(self, slots: Slots) -> Tensor:
        """Return a copy of the slots as stored; ``(0, 0, 0, 0)`` before the first batch."""
        with torch.inference_mode(False):
            if self.buffer is None:
                kind = torch.uint8 if self.storage == "uint8" else self.dtype
                return torch.zeros(0, 0, 0, 0, dtype=kind)
            return _get(self.buffer, slots)

    def read(self, slots: Slots) -> Tensor:
        """Return the slots' images as float ``(M, C, H, W)`` in [0, 1]."""
        images = self.raw(slots)
        if self.storage == "float":
            return images
        with torch.inference_mode(False):
            # Divided by a tensor: a GPU would multiply by the rounded reciprocal of a number.
            scale = torch.full((), 255, dtype=self.dtype, device=images.device)
            result = torch.empty(images.shape, dtype=self.dtype, device=images.device)
            for part, stored in zip(pieces(result), pieces(images), strict=True):
                part.copy_(stored).div_(scale)
            return result

    def restore(self, images: Tensor, dtype: Tensor, members: int) -> None:
        """Take over saved images as slots 0 to M-1, or raise ``ValueError``."""
        kind = torch.uint8 if self.storage == "uint8" else dtype.dtype
        if not dtype.is_floating_point() or images.dtype != kind:
            raise ValueError(f"saved images must be {kind} for this memory, got {images.dtype}")
        if images.ndim != 4 or len(images) != members or (members and 0 in images.shape):
            raise ValueError(
                f"saved images must have shape ({members}, C, H, W), got {tuple(images.shape)}"
            )
        if members and self.storage == "float":
            check_range(*(float(value) for value in images.aminmax()))
        self.dtype = dtype.dtype
        if 0 not in images.shape[1:]:
            self.allocate(tuple(images.shape[1:]), images.device)
            self._made()[:members] = images.detach()

    def clear(self) -> None:
        """Forget the images, their shape and their type."""
        self.buffer, self.dtype = None, torch.float32

    @property
    def nbytes(self) -> int:
        """Bytes taken on the device."""
        return 0 if self.buffer is None else self.buffer.nbytes

    def _made(self) -> Tensor:
        if self.buffer is None:
            raise RuntimeError("write comes after prepare")
        return self.buffer


def _index(rows: Slots, device: torch.device) -> Tensor:
    return torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(device)


def _get(buffer: Tensor, slots: Slots) -> Tensor:
    """Return a copy of rows of the buffer."""
    if buffer.device.type != "cpu":
        return buffer.index_select(0, _index(slots, buffer.device))
    found = torch.empty(len(slots), *buffer.shape[1:], dtype=buffer.dtype)
    _bytes(found)[:] = _bytes(buffer)[np.asarray(slots, dtype=np.int64)]
    return found


def _put(buffer: Tensor, slots: Slots, images: Tensor) -> None:
    """Write images ``(M, C, H, W)`` into rows of the buffer."""
    if buffer.device.type != "cpu":
        buffer[_index(slots, buffer.device)] = images
    else:
        _bytes(buffer)[np.asarray(slots)] = _bytes(images.contiguous())


def _bytes(images: Tensor) -> NDArray[np.uint8]:
    """Return a view ``(M, bytes)``: whole rows move ten times as fast as by torch's indexing."""
    return images.flatten(1).view(torch.uint8).numpy()


def _rounded(values: Tensor) -> Tensor:
    """Round in place, half to even."""
    if values.device.type != "cpu":
        return values.round_()
    np.rint(values.numpy(), out=values.numpy())  # torch would start threads for 2048 numbers
    return values
