"""The members of all clusters side by side, as they are handed out and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipool.memory.cluster import INDEX, LABEL, SERIAL, SLOT, UNCERTAINTY, Cluster
from multipool.memory.distances import Array

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Listing:
    """Members with what is handed out about them, one column each."""

    whole: Whole  # (4, M) serial number, index, slot of the image, label
    uncertainty: Array  # (M,)
    owner: Whole  # (M,) position of the cluster

    @property
    def serial(self) -> Whole:
        """Serial numbers ``(M,)``."""
        return self.whole[SERIAL]

    @property
    def index(self) -> Whole:
        """Indices in the stream ``(M,)``, from which ages are counted."""
        return self.whole[INDEX]

    @property
    def slot(self) -> Whole:
        """Slots of the images ``(M,)``."""
        return self.whole[SLOT]

    @property
    def label(self) -> Whole:
        """Labels ``(M,)``, -1: unknown."""
        return self.whole[LABEL]

    @classmethod
    def of(cls, clusters: Sequence[Cluster]) -> Listing:
        """List all members, cluster by cluster in order of creation, then by arrival."""
        if not clusters:
            return cls(np.empty((4, 0), dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64))
        whole = np.concatenate([c.whole[:, : c.size] for c in clusters], axis=1)
        doubts = np.concatenate([c.real[UNCERTAINTY, : c.size] for c in clusters])
        owner = np.arange(len(clusters)).repeat([c.size for c in clusters])
        return cls(whole, doubts, owner).take(np.lexsort((whole[SERIAL], owner)))

    def take(self, rows: Whole) -> Listing:
        """Return the members in these rows, in this order."""
        whole = self.whole.take(rows, axis=1)
        return Listing(whole, self.uncertainty.take(rows), self.owner.take(rows))
