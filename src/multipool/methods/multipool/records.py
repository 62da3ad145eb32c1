"""Arrays of what multipool keeps on the host, saved and taken over by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
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


def check_pools(found: Mapping[str, Array]) -> None:
    """Refuse a router's arrays that count below zero or name a pool that is not there."""
    if (found["numbers"] < -1).any() or (found["weights"] < 0).any():
        raise ValueError("the router's state has numbers or weights below zero")
    there = np.append(found["weights"] > 0, True)  # the last for -1, no pool
    named = np.append(found["owners"], found["numbers"][1])
    if (named < -1).any() or (named >= len(found["weights"])).any() or not there[named].all():
        raise ValueError("the router's state names a pool that it does not have")
