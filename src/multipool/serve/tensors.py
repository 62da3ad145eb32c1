"""Tensors as the Open Inference Protocol writes them: names of types, JSON lists, raw bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from multipool.serve.refusal import bad, shown

Array = npt.NDArray[Any]

INPUT_TYPES: dict[str, np.dtype[Any]] = {
    "FP32": np.dtype("<f4"),
    "UINT8": np.dtype("u1"),
    "FP16": np.dtype("<f2"),
    "FP64": np.dtype("<f8"),
}
OUTPUT_TYPES: dict[np.dtype[Any], str] = {np.dtype("<f4"): "FP32", np.dtype("<i8"): "INT64"}


def checked_shape(given: object, per_image: tuple[int, int, int], most: int) -> tuple[int, ...]:
    """Return a shape ``(B, C, H, W)`` whose images are the service's, B at most ``most``.

    >>> checked_shape([2, 3, 32, 32], (3, 32, 32), 8)
    (2, 3, 32, 32)
    """
    wanted = f"[B, {', '.join(map(str, per_image))}] with B from 1 to {most}"
    if not isinstance(given, list) or not all(type(side) is int for side in given[:5]):
        raise bad(f"an input's shape must be a list of whole numbers, {wanted}, got {shown(given)}")
    if len(given) != 4 or tuple(given[1:]) != per_image or not 1 <= given[0] <= most:
        raise bad(f"images must have shape {wanted}, got {shown(given)}")
    return tuple(given)


def from_json(data: object, datatype: str, shape: tuple[int, ...]) -> Array:
    """Return the tensor that a JSON list holds, flat or nested."""
    if not isinstance(data, list):
        raise bad(f"an input's data must be a list of numbers, got {shown(data)}")
    dtype = _type(datatype)
    if datatype == "FP16":
        raise bad("FP16 has no form in JSON; send it as binary data, or as FP32")
    try:
        found = np.asarray(data)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise bad("an input's data must be numbers, flat or nested evenly") from None
    if found.dtype.kind not in "iuf":
        raise bad(f"an input's data must be numbers, got a list like {shown(data[:3])}")
    flat = found.ndim == 1
    if found.size != math.prod(shape) or not (flat or found.shape == shape):
        size = list(found.shape)
        raise bad(f"an input's data must hold its shape {list(shape)}, got one of shape {size}")
    if datatype == "UINT8" and (
        found.dtype.kind == "f" or bool((found < 0).any()) or bool((found > 255).any())
    ):
        raise bad("UINT8 data must be whole numbers from 0 to 255, got others")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as that
        return found.astype(dtype).reshape(shape)


def from_bytes(data: bytes | memoryview, datatype: str, shape: tuple[int, ...]) -> Array:
    """Return the tensor that raw bytes hold, little-endian and in row order."""
    dtype = _type(datatype)
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise bad(
            f"{datatype} of shape {list(shape)} takes {expected} bytes of binary data, "
            f"got {len(data)}"
        )
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _type(datatype: object) -> np.dtype[Any]:
    found = INPUT_TYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        known = ", ".join(INPUT_TYPES)
        raise bad(f"an input's datatype must be one of {known}, got {shown(datatype)}")
    return found
