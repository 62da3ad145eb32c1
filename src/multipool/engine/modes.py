"""What a caller has switched on around an adapter and must not reach what it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def own_modes(device: torch.device) -> Iterator[None]:
    """Leave a caller's inference mode, autocast and numpy's errors of underflow outside.

    Updates need gradients, and passes compute in the precision that the adapter was made with. The
    tails of a blur are 0 in float64; under ``np.seterr(all="raise")`` every update would fail.

    >>> with torch.autocast("cpu", torch.bfloat16), own_modes(torch.device("cpu")):
    ...     (torch.ones(1, 1) @ torch.ones(1, 1)).dtype
    torch.float32
    """
    kind = device.type
    with torch.inference_mode(mode=False), np.errstate(under="ignore"):
        # To ask is quicker than to switch it off; some devices, like meta, do not know of it.
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                yield
        else:
            yield
