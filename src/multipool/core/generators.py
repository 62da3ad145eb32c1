"""Random generators of our own: seeded by numbers and names, saved and restored as bytes."""

from __future__ import annotations

import json
import zlib

import numpy as np
import torch
from torch import Tensor


def numpy_generator(seed: int, *keys: int | str) -> np.random.Generator:
    """Return a generator for ``seed`` and any further keys; other keys, independent draws."""
    words = [zlib.crc32(k.encode()) if isinstance(k, str) else k for k in keys]
    return np.random.default_rng([seed, *words])


def torch_generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a seeded torch generator on ``device``."""
    return torch.Generator(device=device).manual_seed(seed)


def numpy_state(generator: np.random.Generator) -> Tensor:
    """Return the generator's state as a uint8 tensor, for a flat ``state_dict``."""
    text = json.dumps(generator.bit_generator.state, sort_keys=True)
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def restore_numpy(generator: np.random.Generator, state: Tensor) -> None:
    """Put ``generator`` into the state saved by :func:`numpy_state`."""
    try:
        saved = json.loads(bytes(state.tolist()))
        generator.bit_generator.state = saved
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"the saved random state cannot be read: {error}") from None
