"""Checks of numbers and tensors at the memory's door, one sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

import torch
from torch import Tensor

from multipool.core import check_plain, unknown

# A list of free slots is kept; more would not be a memory but a dataset.
MOST_SAMPLES = 2**20
MOST_CLASSES = 2**20
MOST_SEEN = 2**53  # samples of a stream: ages are exact as float64, and sums stay far from 2^63


def whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int of at least ``low`` and at most ``high``, else ``ValueError``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")
    if high is not None and int(value) > high:
        raise ValueError(f"{name} must be at most {high:,}, got {value!r}")
    return int(value)


def number(name: str, value: object, *, infinite: bool = False) -> float:
    """Return ``value`` as a float of at least 0, else ``ValueError``; NaN never passes."""
    fits = isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0
    if not fits or (math.isinf(float(value)) and not infinite):  # type: ignore[arg-type]
        kind = "a number" if infinite else "a finite number"
        raise ValueError(f"{name} must be {kind} of at least 0, got {value!r}")
    return float(value)  # type: ignore[arg-type]


def one_of(what: str, name: object, known: Sequence[str]) -> None:
    """Raise ``ValueError`` unless ``name`` is one of the known ones."""
    if name not in known:
        raise unknown(what, name, known)


def count(n: object) -> int | None:
    """Return the number of samples asked of ``retrieve``, or ``None`` for all of them."""
    return None if n is None else whole("n", n, 0)


def column(name: str, values: object, length: int, *, integer: bool) -> Tensor:
    """Return ``values`` if it is a real ``(B,)`` tensor of that length and kind."""
    if not isinstance(values, Tensor):
        raise ValueError(f"{name} must be a torch.Tensor, got {type(values).__name__}")
    check_plain(name, values)
    if values.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {tuple(values.shape)}")
    whole_numbers = not (values.is_floating_point() or values.is_complex())
    whole_numbers = whole_numbers and values.dtype != torch.bool
    if integer and not whole_numbers:
        raise ValueError(f"{name} must be integers, got {values.dtype}")
    if not integer and (values.is_complex() or values.dtype == torch.bool):
        raise ValueError(f"{name} must be real numbers, got {values.dtype}")
    return values
