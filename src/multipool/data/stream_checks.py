"""Whether the arguments of a stream's order are what they should be."""

from __future__ import annotations

from numbers import Real

import numpy as np
import numpy.typing as npt

from multipool.data.protocol import Ints

MAX_SLOTS = 100  # the protocol's slots: one a class, at most 100


def checked(labels: npt.ArrayLike, domains: npt.ArrayLike, seed: int) -> tuple[Ints, Ints]:
    """Return labels and domains as ``(N,)`` numbers, after checking them and the seed."""
    labels, domains = integers("labels", labels, 0), integers("domains", domains, 0)
    if len(labels) != len(domains):
        raise ValueError(
            "labels and domains must have the same length, "
            f"got {len(labels)} labels and {len(domains)} domains"
        )
    whole("seed", seed, 0)
    return labels, domains


def checked_shares(labels: Ints, gamma: float, slots: int | None) -> tuple[Ints, int]:
    """Return the classes present and the number of slots, after checking how they are shared."""
    if not isinstance(gamma, Real) or not 0 < gamma < float("inf"):
        raise ValueError(f"gamma must be a finite number above 0, got {gamma!r}")
    classes = np.unique(labels)
    slots = min(len(classes), MAX_SLOTS) if slots is None else slots
    whole("slots", slots, 1)
    return classes, slots


def integers(what: str, values: npt.ArrayLike, least: int) -> Ints:
    """Return a list of whole numbers, none below ``least``, as ``(N,)`` int64."""
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{what} must be a non-empty list of numbers, got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{what} must be whole numbers, got {array.dtype}")
    if array.min() < least:
        raise ValueError(f"{what} must be at least {least}, got {array.min()}")
    return array.astype(np.int64)


def whole(what: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{what} must be a whole number of at least {least}, got {value!r}")
