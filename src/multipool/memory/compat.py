"""Any bank behind the interface that the published RoTTA and PeTTA code calls."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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
        self.memory, self.n = memory, count(n)

    @property
    def capacity(self) -> int:
        """N, which ages are divided by."""
        return self.memory.capacity

    def add_instance(self, instance: Sequence[object]) -> None:
        """Add ``(image, label, uncertainty)``; a fourth entry, PeTTA's true label, is ignored."""
        if len(instance) not in (3, 4):
            raise ValueError(
                "an instance must be (image, label, uncertainty) or (image, label, uncertainty, "
                f"true label), got {len(instance)} entries"
            )
        image, label, uncertainty = instance[:3]
        if not isinstance(image, Tensor):
            raise ValueError(f"the image must be a torch.Tensor, got {type(image).__name__}")
        self.memory.add(
            image.unsqueeze(0),
            uncertainty=torch.tensor([uncertainty], dtype=torch.float64),
            labels=torch.tensor([label], dtype=torch.int64),
        )

    def get_memory(self) -> tuple[list[Tensor], list[float]]:
        """Return a list of images ``(C, H, W)`` and a list of their ages divided by N."""
        batch = self.memory.retrieve(self.n)
        return list(batch.images), [age / self.memory.capacity for age in batch.ages.tolist()]

    def get_occupancy(self) -> int:
        """Return the number of samples stored."""
        return len(self.memory)
