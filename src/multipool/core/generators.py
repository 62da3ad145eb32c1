"""Random generators of our own: seeded by numbers and names, saved and restored as bytes."""

from __future__ import annotations

import json
import zlib
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from multipool.core.words import brief


def numpy_generator(seed: int, *keys: int | str) -> np.random.Generator:
    """Return a generator for ``seed`` and any further keys; other keys, independent draws."""
    check_seed(seed)
    words = [zlib.crc32(k.encode()) if isinstance(k, str) else k for k in keys]
    return np.random.default_rng([seed, *words])


def torch_generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a seeded torch generator on ``device``."""
    check_seed(seed)
    return torch.Generator(device=device).manual_seed(int(seed))


def check_seed(seed: object) -> None:
    """Raise ``ValueError`` unless ``seed`` is a whole number from 0 to 2^63 - 1."""
    whole = isinstance(seed, Integral) and not isinstance(seed, bool)
    if not whole or not 0 <= int(seed) < 2**63:  # type: ignore[call-overload]
        raise ValueError(f"seed must be a whole number from 0 to 2^63 - 1, got {seed!r}")


def numpy_state(generator: np.random.Generator) -> Tensor:
    """Return the generator's state as a uint8 tensor, for a flat ``state_dict``."""
    text = json.dumps(generator.bit_generator.state, sort_keys=True)
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def restore_numpy(generator: np.random.Generator, state: Tensor) -> None:
    """Put ``generator`` into the state saved by :func:`numpy_state`."""
    try:
        saved = json.loads(bytes(state.tolist()))
        generator.bit_generator.state = saved
    except Exception as error:  # a damaged state makes the readers raise nearly anything
        raise ValueError(f"the saved random state cannot be read: {brief(error)}") from None
