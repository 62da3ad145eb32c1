"""Read-only views of the clusters: one for strategies, one for users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class ClusterView:
    """All that a strategy may look at, one row per cluster in order of creation."""

    sizes: NDArray[np.int64]  # (K,)
    centroids: NDArray[np.float64]  # (K, D)
    created: NDArray[np.int64]  # (K,) index of the first sample
    last_used: NDArray[np.int64]  # (K,) index of the last sample assigned
    now: int  # index of the next sample

    def __len__(self) -> int:
        return len(self.sizes)

    def of_members(self, owner: NDArray[np.int64]) -> ClusterView:
        """Return the view as if only the members with these ``owner`` positions ``(M,)`` existed.

        Clusters without any are left out; centroids stay those of all members.
        """
        sizes = np.bincount(owner, minlength=len(self)).astype(np.int64)
        kept = np.flatnonzero(sizes)
        rest = (self.centroids[kept], self.created[kept], self.last_used[kept])
        return ClusterView(sizes[kept], *rest, self.now)


@dataclass(frozen=True)
class Clusters:
    """What ``memory.clusters`` shows: copies on the host, in order of creation."""

    sizes: Tensor  # (K,) int64
    centroids: Tensor  # (K, D) float64
    created: Tensor  # (K,) int64
    last_used: Tensor  # (K,) int64

    def __len__(self) -> int:
        return len(self.sizes)

    @classmethod
    def of(cls, view: ClusterView) -> Clusters:
        """Return the user's copy of a strategy's view."""
        arrays = (view.sizes, view.centroids, view.created, view.last_used)
        return cls(*(torch.tensor(array) for array in arrays))
