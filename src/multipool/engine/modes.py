"""What a caller has switched on around an adapter and must not reach what it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def own_modes(device: torch.device) -> Iterator[None]:
    """Leave a caller's inference mode and autocast outside.

    Updates need gradients, and passes compute in the precision that the adapter was made with.

    >>> with torch.autocast("cpu", torch.bfloat16), own_modes(torch.device("cpu")):
    ...     (torch.ones(1, 1) @ torch.ones(1, 1)).dtype
    torch.float32
    """
    with torch.inference_mode(mode=False):
        if torch.is_autocast_enabled(device.type):  # to ask is quicker than to switch it off
            with torch.autocast(device.type, enabled=False):
                yield
        else:
            yield
