"""What is cheap for the host: memory kept for the next step, answers without a wait, one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_BLOCK = 2**25 - 2**16  # bytes: as large as glibc heeds
_ALONE = 2**18  # multiplications up to which OpenBLAS takes one thread for a product


def keep_freed() -> None:
    """Have glibc give memory back only where more than 64 MB at the end of its heap are free.

    It gives back what is beyond twice the largest block that it has mapped and unmapped (mallopt,
    M_TRIM_THRESHOLD), which the activations of a small model exceed after every backward; each
    step then takes the same memory again, page by page. Other C libraries take no notice.
    """
    torch.empty(_BLOCK, dtype=torch.uint8)  # mapped and unmapped, and never touched


class Arriving:
    """A copy of ``values`` on its way to the host; only who asks for it waits, and only for it.

    What is put on the device's queue afterwards does not delay it.
    """

    def __init__(self, values: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        self._values = values.detach()
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values.detach(), non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def wait(self) -> Tensor:
        """Return the values on the host, once they are there."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._values


def sent(values: npt.NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Return ``values`` on ``device``; the host goes on before they are there."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(values)
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def known_true(flag: Tensor) -> bool:
    """Tell whether ``flag`` ``()`` holds, where asking does not make the host wait; else False."""
    return flag.device.type == "cpu" and bool(flag)


def product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``a @ b``, ``(M, K)`` and ``(K, N)`` or ``(K,)``, in pieces that take one thread.

    numpy's BLAS gives larger products to threads of its own, which then wait for more by spinning
    for a tenth of a second, on the cores that torch has the next pass to do on: on two cores that
    pass took twice as long.

    >>> product(np.eye(2), np.array([[1.0], [2.0]])).tolist()
    [[1.0], [2.0]]
    """
    if b.ndim == 1:
        return np.asarray(np.einsum("mk,k->m", a, b))
    if len(a) == 1:
        return np.asarray(np.einsum("mk,kn->mn", a, b))
    rows = max(2, _ALONE // b.size)
    if len(a) <= rows:
        return np.asarray(a @ b)
    return np.concatenate([a[i : i + rows] @ b for i in range(0, len(a), rows)])
