"""Read-only views of the clusters and their members: for strategies, and for users."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.memory.distances import Array, Whole


@dataclass(frozen=True)
class MemberView:
    """Members of the memory, one entry each: cluster by cluster, and by arrival within one."""

    owner: Whole  # (M,) position of the cluster
    serials: Whole  # (M,) number of the sample in the stream, in order of arrival
    ages: Whole  # (M,) in ``age_unit``; the newest is 1
    uncertainty: Array  # (M,) nats, when it came
    labels: Whole  # (M,) predicted class, -1: unknown
    slots: Whole  # (M,) where the images are

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, rows: Whole | slice) -> MemberView:
        """Return the members in these rows, in this order."""
        return MemberView(
            self.owner[rows],
            self.serials[rows],
            self.ages[rows],
            self.uncertainty[rows],
            self.labels[rows],
            self.slots[rows],
        )


@dataclass(frozen=True)
class ClusterView:
    """All that a strategy may look at, one row per cluster in order of creation."""

    sizes: Whole  # (K,)
    centroids: Array  # (K, D)
    created: Whole  # (K,) index of the first sample
    last_used: Whole  # (K,) index of the last sample assigned
    members: MemberView  # (M,)

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, cluster: int) -> MemberView:
        """Return the members of one cluster, by arrival."""
        start = int(self.sizes[:cluster].sum())
        return self.members.take(slice(start, start + int(self.sizes[cluster])))


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
