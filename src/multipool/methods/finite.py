"""Whether values are finite numbers, found in few kernels and asked without waiting."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def extent(values: Tensor) -> Tensor:
    """Return max - min of a tensor as ``()``: not finite if anything in it is not.

    >>> extent(torch.tensor([1.0, 4.0])), extent(torch.tensor([1.0, float("-inf")]))
    (tensor(3.), tensor(inf))
    """
    low, high = values.detach().aminmax()
    return high - low


class Question:
    """Asks whether a tensor is finite; the answer travels to the host while the device goes on.

    Whoever reads another result of the device in between has waited for this one, too.
    """

    def __init__(self, device: torch.device) -> None:
        self._event = torch.cuda.Event() if device.type == "cuda" else None
        self._answer = torch.zeros((), pin_memory=self._event is not None)
        self._known: bool | None = None
        self.asked: Tensor | None = None  # the extent of what was asked about, on the device

    def forget(self) -> None:
        """Be asked about something else next."""
        self.asked = self._known = None

    def ask(self, values: Tensor) -> None:
        """Ask, and do not wait."""
        self._known = None
        self.asked = extent(values)
        self._answer.copy_(self.asked, non_blocking=True)
        if self._event is not None:
            self._event.record()

    def fine(self, values: Tensor) -> bool:
        """Tell whether ``values`` are finite; what was asked before, by the answer to that."""
        if self.asked is None:
            self.ask(values)
        if self._known is None:
            if self._event is not None:
                self._event.synchronize()
            self._known = math.isfinite(float(self._answer))
        return self._known
