"""Where a bank's images lie: one tensor of slots on the images' device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.core import as_float, check_as_before, check_range
from multipool.memory import switch
from multipool.memory.pixels import Look, eight_bits, look, on_host, plain

MOST_BYTES = 2**36  # of a buffer that a saved state may ask for
_FIRST = 16  # slots that a buffer on a CPU begins with
STORAGES = ("uint8", "float")
Rows = NDArray[np.int64]
Slots = Sequence[int] | Rows


class ImageStore:
    """``slots`` images, as 8-bit integers or as the float type of the first batch.

    The buffer is made at the first write and follows the images from then on: when they come on
    another device, what is stored moves there. On a CPU it grows as slots are taken, the lowest
    first, so that a bank of few images takes little; made on an accelerator it is whole at once.
    """

    def __init__(self, slots: int, storage: str) -> None:
        self.slots, self.storage = slots, storage
        self._compiled = storage == "uint8" and switch.has_passes()
        self.buffer: Tensor | None = None  # (up to slots, C, H, W)
        self.dtype = torch.float32  # of the images handed out
        self._scale: Tensor | None = None  # 255 on the device, made once

    def check(self, images: Tensor) -> None:
        """Raise ``ValueError`` unless images ``(B, C, H, W)`` have the stored shape."""
        check_as_before(images, self.shape)

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
        rows = min(self.slots, _FIRST) if device.type == "cpu" else self.slots
        kind = torch.uint8 if self.storage == "uint8" else self.dtype
        # An ordinary tensor even under inference_mode: it is written to outside of it, too.
        with torch.inference_mode(False):
            self.buffer = torch.zeros(rows, *shape, dtype=kind, device=device)

    def look(self, images: Tensor) -> Look | None:
        """Return what one compiled pass finds in images; None where numpy has to look."""
        return look(images) if self._compiled else None

    def write(self, slots: Slots, images: Tensor, rows: Slots, seen: Look | None = None) -> None:
        """Put ``images[rows]`` into ``slots``: one indexed write, on a CPU one a piece.

        What was ``seen`` of the images has them in 8 bits already.
        """
        if len(slots) == 0:
            return
        buffer, images = self._grown(self._made(), int(max(slots)) + 1), images.detach()
        if not on_host(images):
            self._write_there(buffer, slots, images, rows)
            return
        places, chosen = np.array((slots, rows), dtype=np.int64)
        if seen is not None:
            _bytes(buffer)[places] = seen.levels[chosen]
            return
        if 2 * len(rows) < len(images):  # else to store some in vain is cheaper than to choose
            images, chosen = _get(images.contiguous(), chosen), np.arange(len(rows), dtype=np.int64)
        stored = _bytes(self._stored(images, buffer.dtype).contiguous())
        _bytes(buffer)[places] = stored[chosen]

    def _grown(self, buffer: Tensor, rows: int) -> Tensor:
        """Return the buffer with room for so many images: as it is, or half as large again."""
        if rows <= len(buffer):
            return buffer
        rows = min(self.slots, max(rows, len(buffer) + len(buffer) // 2))
        with torch.inference_mode(False):
            self.buffer = buffer.new_zeros(rows, *buffer.shape[1:])
            self.buffer[: len(buffer)] = buffer
        return self.buffer

    def _write_there(self, buffer: Tensor, slots: Slots, images: Tensor, rows: Slots) -> None:
        """Write on an accelerator, with one copy of indices to it."""
        if len(rows) == len(images):
            places = _index(slots, images.device)
        else:
            places, chosen = _index((slots, rows), images.device)
            images = images.index_select(0, chosen)
        buffer.index_copy_(0, places, self._stored(images, buffer.dtype))

    def _stored(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Return images in the type of the buffer."""
        if self.storage == "float":
            return as_float(images).to(dtype)
        if images.dtype == torch.uint8:
            return images
        if on_host(images):
            return torch.from_numpy(eight_bits(plain(images)))
        exact = images if images.dtype == torch.float64 else images.float()
        return (exact * 255).round_().to(torch.uint8)

    def raw(self, slots: Slots) -> Tensor:
        """Return a copy of the slots as stored; ``(0, 0, 0, 0)`` before the first batch."""
        with torch.inference_mode(False):
            if self.buffer is None:
                kind = torch.uint8 if self.storage == "uint8" else self.dtype
                return torch.zeros(0, 0, 0, 0, dtype=kind)
            return _get(self.buffer, slots)

    def read(self, slots: Slots) -> Tensor:
        """Return the slots' images as float ``(M, C, H, W)`` in [0, 1]."""
        buffer = self.buffer
        if (
            self._compiled
            and buffer is not None
            and on_host(buffer)
            and self.dtype == torch.float32
        ):
            return _floats(buffer, slots)
        images = self.raw(slots)
        if self.storage == "float":
            return images
        with torch.inference_mode(False):
            if on_host(images) and self.dtype != torch.bfloat16:  # which numpy lacks
                result = torch.empty(images.shape, dtype=self.dtype)
                levels = result.numpy()
                np.divide(images.numpy(), 255, out=levels, dtype=levels.dtype)
                return result
            # By a tensor: a GPU would multiply by the rounded reciprocal of a number.
            if self._scale is None or self._scale.device != images.device:
                self._scale = torch.full((), 255, dtype=self.dtype, device=images.device)
            return torch.div(images, self._scale)

    def restore(self, images: Tensor, dtype: Tensor, members: int) -> None:
        """Take over saved images as slots 0 to M-1, or raise ``ValueError``."""
        kind = torch.uint8 if self.storage == "uint8" else dtype.dtype
        if not dtype.is_floating_point() or images.dtype != kind:
            raise ValueError(f"saved images must be {kind} for this memory, got {images.dtype}")
        if images.ndim != 4 or len(images) != members or (members and 0 in images.shape):
            raise ValueError(
                f"saved images must have shape ({members}, C, H, W), got {tuple(images.shape)}"
            )
        if self.slots * math.prod(images.shape[1:]) * images.element_size() > MOST_BYTES:
            raise ValueError(f"saved images of shape {tuple(images.shape)} are too large to keep")
        if members and self.storage == "float":
            check_range(*(float(value) for value in images.aminmax()))
        self.dtype = dtype.dtype
        if 0 not in images.shape[1:]:
            self.allocate(tuple(images.shape[1:]), images.device)
            self._grown(self._made(), members)[:members] = images.detach()

    def clear(self) -> None:
        """Forget the images, their shape and their type."""
        self.buffer, self.dtype, self._scale = None, torch.float32, None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """(C, H, W) of the images; None before the first batch."""
        return None if self.buffer is None else tuple(self.buffer.shape[1:])

    @property
    def nbytes(self) -> int:
        """Bytes taken on the device."""
        return 0 if self.buffer is None else self.buffer.nbytes

    def _made(self) -> Tensor:
        if self.buffer is None:
            raise RuntimeError("write comes after prepare")
        return self.buffer


def _index(rows: Slots | tuple[Slots, Slots], device: torch.device) -> Tensor:
    return torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(device)


def _get(buffer: Tensor, slots: Slots) -> Tensor:
    """Return a copy of rows of the buffer."""
    if not on_host(buffer):
        return buffer.index_select(0, _index(slots, buffer.device))
    found = torch.empty(len(slots), *buffer.shape[1:], dtype=buffer.dtype)
    _bytes(buffer).take(np.asarray(slots, dtype=np.int64), axis=0, out=_bytes(found), mode="clip")
    return found


def _floats(buffer: Tensor, slots: Slots) -> Tensor:
    """Return slots of 8-bit images as float32 in [0, 1], by compiled code."""
    stored = _bytes(buffer)
    # By numpy, which asks the system for large pages: at 224 px that is half of the time.
    levels = np.empty((len(slots), stored.shape[1]), dtype=np.float32)
    switch.passes.read(stored, np.ascontiguousarray(slots, dtype=np.int64), levels)
    with torch.inference_mode(False):
        return torch.from_numpy(levels).view(len(slots), *buffer.shape[1:])


def _bytes(images: Tensor) -> NDArray[np.uint8]:
    """Return a view ``(M, bytes)``: whole rows move ten times as fast as by torch's indexing."""
    return images.flatten(1).view(torch.uint8).numpy()
