"""What keeps a frozen model and its images as they are, whatever the model's forward does."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn


class Untouched:
    """Keeps a frozen model and its images as they are, whatever its forward writes into them.

    Around a pass it is a context, which puts back buffers that changed: a counter, a cache. Else
    the source model would not be the same after a reset, nor a saved adapter when it is loaded.
    """

    def __init__(self, body: nn.Module) -> None:
        buffers = [
            (part, name, buffer)
            for part in body.modules()
            if not isinstance(part, torch.jit.ScriptModule)  # which hands out copies of its own
            for name, buffer in part._buffers.items()
            if buffer is not None
        ]
        self._buffers = [(*place, place[2].clone()) for place in buffers]
        self._written = [buffer._version for _, _, buffer in buffers]
        self._writes: bool | None = None  # whether passes write into images; None: not known yet
        self._given: Tensor | None = None

    def own(self, images: Tensor) -> Tensor:
        """Return images for one pass: a copy, unless it is known that the model only reads."""
        if self._writes is False:
            return images
        self._given = images.clone()
        return self._given

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if self._given is not None and not failed:  # a pass that was cut short tells nothing
            self._writes = bool(self._writes or self._given._version)
        self._given = None
        for row, (part, name, buffer, value) in enumerate(self._buffers):
            part._buffers[name] = buffer
            if buffer._version != self._written[row]:
                with torch.no_grad():
                    buffer.copy_(value)
                self._written[row] = buffer._version
