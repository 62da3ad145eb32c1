"""What is cheap for the host: memory kept for the next step, answers without a wait."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 2**25 - 2**16  # bytes: as large as glibc heeds


def keep_freed() -> None:
    """Have glibc give memory back only where more than 64 MB at the end of its heap are free.

    It gives back what is beyond twice the largest block that it has mapped and unmapped (mallopt,
    M_TRIM_THRESHOLD), which the activations of a small model exceed after every backward; each
    step then takes the same memory again, page by page. Other C libraries take no notice.
    """
    torch.empty(_BLOCK, dtype=torch.uint8)  # mapped and unmapped, and never touched


def known_true(flag: Tensor) -> bool:
    """Tell whether ``flag`` ``()`` holds, where asking does not make the host wait; else False."""
    return flag.device.type == "cpu" and bool(flag)
