"""How well a memory represents the stream so far: imbalance, entropy, coverage (Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multipool.core import Retrieved, torch_generator
from multipool.diagnostics.described import Given, describe
from multipool.diagnostics.mixture import FitConfig, Mixture, fit
from multipool.memory import Memory

COMPONENTS = 20  # the paper's 2.98 is "near-maximum entropy", and ln 20 = 3.00
MEANINGFUL = 0.01  # share of the memory above which a component counts as covered
# Diagonal: twenty full covariances follow the sample they were fitted to, not the stream. Few
# iterations: the reference is only a ruler, and a live one must be cheap.
REFERENCE_FIT = FitConfig(covariance="diag", trial=3, iterations=30)
_SAMPLE = 1024  # of the stream so far, spread evenly, that a reference is fitted to


@dataclass(frozen=True)
class Quality:
    """What a memory holds of each component of a reference mixture."""

    occupancy: tuple[int, ...]  # samples of the memory in each component

    @property
    def imbalance(self) -> float:
        """Return the largest occupancy over the smallest that is not zero; less is better."""
        held = [count for count in self.occupancy if count]
        return max(held) / min(held)

    @property
    def entropy(self) -> float:
        """Return the entropy of the occupancy in nats; at most ln(components)."""
        shares = np.array([count for count in self.occupancy if count]) / sum(self.occupancy)
        return abs(float(-(shares * np.log(shares)).sum()))  # not -0.0

    @property
    def coverage(self) -> float:
        """Return the share of the components that hold more than 1 % of the memory."""
        total = sum(self.occupancy)
        return sum(count > MEANINGFUL * total for count in self.occupancy) / len(self.occupancy)

    def as_dict(self) -> dict[str, float]:
        """Return the three numbers by name."""
        return {
            "imbalance": self.imbalance,
            "entropy": self.entropy,
            "coverage": self.coverage,
        }


def occupancy_quality(occupancy: Sequence[int]) -> Quality:
    """Return the quality of a memory with so many samples in each component.

    >>> quality = occupancy_quality([6, 2, 0, 0])
    >>> quality.imbalance, round(quality.entropy, 4), quality.coverage
    (3.0, 0.5623, 0.5)
    """
    counts = np.asarray(occupancy)
    whole = counts.size == 0 or counts.dtype.kind in "iu"
    if counts.ndim != 1 or not whole or min(counts.tolist(), default=-1) < 0:
        raise ValueError(f"occupancy must be counts of at least 0, got {occupancy!r}")
    if counts.sum() == 0:
        raise ValueError("the memory is empty, so it has no quality; add samples first")
    return Quality(tuple(counts.tolist()))


class Reference:
    """A mixture fitted to the stream so far, by which memories are measured.

    Args:
        stream: images ``(S, C, H, W)``, batches of them, or descriptors ``(S, D)``.
        components: of the mixture; fewer if the stream has fewer different samples.
        descriptor: a key of :data:`multipool.memory.DESCRIPTORS`.
        seed: seed of the initialisation.
        fitting: how the mixture is fitted.
    """

    def __init__(
        self,
        stream: Given,
        components: int = COMPONENTS,
        descriptor: str = "pixel",
        seed: int = 0,
        fitting: FitConfig = REFERENCE_FIT,
    ) -> None:
        if not isinstance(components, int) or components < 1:
            raise ValueError(f"components must be a whole number of at least 1, got {components!r}")
        self.descriptor = descriptor
        points = describe(stream, descriptor)
        self._middle = points.mean(dim=0)
        spread = points.std(dim=0, unbiased=False)
        self._scale = spread.where(spread > 1e-9, torch.ones_like(spread))
        rows = np.linspace(0, len(points) - 1, min(len(points), _SAMPLE)).round().astype(int)
        sample = self._scaled(points[torch.from_numpy(rows)])
        most = min(components, len(sample.unique(dim=0)))
        self.mixture: Mixture = fit(sample[None], most, fitting, torch_generator(seed))

    @property
    def components(self) -> int:
        """Return how many components there are."""
        return self.mixture.weights.shape[1]

    def assign(self, samples: Given) -> Tensor:
        """Return the most probable component of every sample: ``(S,)``."""
        points = describe(samples, self.descriptor)
        if points.shape[1] != len(self._middle):
            raise ValueError(
                f"descriptors must have the stream's {len(self._middle)} numbers, "
                f"got {points.shape[1]}"
            )
        return self.mixture.assign(self._scaled(points)[None])[0]

    def measure(self, memory: Memory | Retrieved | Given) -> Quality:
        """Return the quality of a bank, of what it handed out, or of images or descriptors."""
        held = memory.retrieve(None) if isinstance(memory, Memory) else memory
        samples = held.images if isinstance(held, Retrieved) else held
        if isinstance(samples, Tensor | np.ndarray) and len(samples) == 0:
            return occupancy_quality([0] * self.components)
        counts = self.assign(samples).bincount(minlength=self.components)
        return occupancy_quality(counts.tolist())

    def _scaled(self, points: Tensor) -> Tensor:
        return (points - self._middle) / self._scale


def memory_quality(
    memory: Memory | Retrieved | Given,
    stream: Given | Reference,
    *,
    components: int = COMPONENTS,
    descriptor: str = "pixel",
    seed: int = 0,
) -> Quality:
    """Measure a memory's content against a mixture fitted to the stream so far (Fig. 4).

    Args:
        memory: a bank, what it handed out, images ``(M, C, H, W)`` or descriptors ``(M, D)``.
        stream: the stream so far, as images or descriptors, or a :class:`Reference` made of it.
        components: of the mixture, if it is fitted here.
        descriptor: a key of :data:`multipool.memory.DESCRIPTORS`, if it is fitted here.
        seed: of the mixture's initialisation, if it is fitted here.

    >>> stream = torch.cat((torch.zeros(50, 3, 4, 4), torch.ones(50, 3, 4, 4)))
    >>> memory_quality(stream[45:53], stream).occupancy in ((5, 3), (3, 5))
    True
    """
    if not isinstance(stream, Reference):
        stream = Reference(stream, components, descriptor, seed)
    return stream.measure(memory)
