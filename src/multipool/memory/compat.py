"""Any bank behind the interface that the published RoTTA and PeTTA code calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from multipool.core import brief
from multipool.memory.checks import count
from multipool.memory.protocol import Memory


class LegacyBank:
    """Put a bank where their code has ``CSTU`` or ``PeTTAMemory``, with no other change.

    >>> from multipool.memory import MultiClusterMemory
    >>> bank = LegacyBank(MultiClusterMemory(100))
    >>> bank.add_instance((torch.zeros(3, 8, 8), 7, 0.5))
    >>> images, ages = bank.get_memory()
    >>> len(images), ages, bank.get_occupancy()
    (1, [0.015625], 1)

    Args:
        memory: any bank.
        n: samples that ``get_memory`` asks for; ``None`` is all of them.
    """

    def __init__(self, memory: Memory, n: int | None = 64) -> None:
        if not isinstance(memory, Memory):
            raise ValueError(
                f"a legacy bank needs a bank with add and retrieve, got {type(memory).__name__}"
            )
        self.memory, self.n = memory, count(n)

    @property
    def capacity(self) -> int:
        """N, which ages are divided by."""
        return self.memory.capacity

    def add_instance(self, instance: Sequence[object]) -> None:
        """Add ``(image, label, uncertainty)``; a fourth entry, PeTTA's true label, is ignored."""
        entries = len(instance) if isinstance(instance, Sequence) else 0
        if entries not in (3, 4):
            came = f"{entries} entries" if entries else type(instance).__name__
            raise ValueError(
                "an instance must be (image, label, uncertainty) or (image, label, uncertainty, "
                f"true label), got {came}"
            )
        image, label, uncertainty = instance[:3]
        if not isinstance(image, Tensor) or image.ndim != 3:
            kind = f"{tuple(image.shape)}" if isinstance(image, Tensor) else type(image).__name__
            raise ValueError(f"the image must be a torch.Tensor (C, H, W), got {kind}")
        self.memory.add(
            image.unsqueeze(0),
            uncertainty=_one("uncertainty", uncertainty, torch.float64),
            labels=_one("label", label, torch.int64),
        )

    def get_memory(self) -> tuple[list[Tensor], list[float]]:
        """Return a list of images ``(C, H, W)`` and a list of their ages divided by N."""
        batch = self.memory.retrieve(self.n)
        return list(batch.images), [age / self.memory.capacity for age in batch.ages.tolist()]

    def get_occupancy(self) -> int:
        """Return the number of samples stored."""
        return len(self.memory)


def _one(name: str, value: object, dtype: torch.dtype) -> Tensor:
    """Return one number, also of a tensor or an array that holds one, as ``(1,)``."""
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    found = np.asarray(number)
    kinds, word = ("iu", "a whole number") if dtype == torch.int64 else ("iuf", "a number")
    if found.size != 1 or found.dtype.kind not in kinds:
        raise ValueError(f"the {name} must be {word}, got {brief(number)}")
    return torch.tensor([found.item()], dtype=dtype)
