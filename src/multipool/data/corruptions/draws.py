"""Random numbers of a corruption: one stream per purpose, read in the order of the images."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from multipool.core import numpy_generator


class Draws:
    """Random tensors for successive chunks of a batch, the same however the batch is cut.

    Every purpose ("noise", "angle", ...) has a NumPy stream of its own, keyed by seed, corruption,
    severity and purpose, and every image takes the same share of it. The numbers are drawn on the
    host whatever the device, so a GPU sees the same ones.
    """

    def __init__(self, seed: int, name: str, severity: int, device: torch.device) -> None:
        self._keys = (seed, name, severity)
        self._streams: dict[str, np.random.Generator] = {}
        self.device = device

    def normal(self, purpose: str, *shape: int) -> Tensor:
        """Return standard normal float32 numbers of ``shape``, images first."""
        values = self._stream(purpose).standard_normal(shape, dtype=np.float32)
        return torch.from_numpy(values).to(self.device)

    def uniform(self, purpose: str, *shape: int) -> Tensor:
        """Return float32 numbers of ``shape``, uniform in [0, 1), images first."""
        values = self._stream(purpose).random(shape, dtype=np.float32)
        return torch.from_numpy(values).to(self.device)

    def words(self, purpose: str, *shape: int) -> Tensor:
        """Return integers of ``shape``, int64, uniform in [0, 65536), images first."""
        count = int(np.prod(shape[1:]))
        # The stream yields 4 bytes at a time: an odd count leaves half a word unused, per image.
        raw = self._stream(purpose).bytes(4 * shape[0] * ((count + 1) // 2))
        values = np.frombuffer(raw, dtype="<u2").reshape(shape[0], -1)[:, :count]
        return torch.from_numpy(values.astype(np.int64)).to(self.device).view(shape)

    def below(self, purpose: str, limit: int, *shape: int) -> Tensor:
        """Return integers of ``shape``, int64, uniform in [0, ``limit``) up to 1 part in 65536."""
        return (self.words(purpose, *shape) * limit) >> 16

    def _stream(self, purpose: str) -> np.random.Generator:
        if purpose not in self._streams:
            seed, name, severity = self._keys
            self._streams[purpose] = numpy_generator(seed, name, severity, purpose)
        return self._streams[purpose]
