"""Arrays of what multipool keeps on the host, saved and taken over by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]


def saved(owner: object, names: Sequence[str]) -> dict[str, Tensor]:
    """Return copies of the arrays that ``owner`` has under these names."""
    return {name: torch.from_numpy(getattr(owner, name).copy()) for name in names}


def sound(
    owner: object, names: Sequence[str], state: Mapping[str, Tensor], whose: str
) -> dict[str, Array]:
    """Return saved arrays as ``owner`` has them; a missing or unfit one is a ``ValueError``."""
    found = {}
    for name in names:
        own, given = getattr(owner, name), state.get(name)
        if given is None or given.shape != own.shape or not bool(given.isfinite().all()):
            raise ValueError(f"the {whose} state has no sound '{name}' of shape {own.shape}")
        found[name] = given.numpy().astype(own.dtype)
    return found
