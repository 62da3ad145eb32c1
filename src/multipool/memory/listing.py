"""The members of all clusters side by side, as they are handed out and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from multipool.memory.cluster import INDEX, LABEL, SERIAL, SLOT, UNCERTAINTY
from multipool.memory.distances import Array, Whole


class Members(Protocol):
    """The members of one cluster, ``size`` of them in any order, one column each."""

    @property
    def real(self) -> Array:
        """Descriptor, uncertainty and the uncertainty term of H(x), ``(D+2, N)``."""

    @property
    def whole(self) -> Whole:
        """Serial number, index in the stream, slot of the image, label, ``(4, N)``."""

    @property
    def size(self) -> int:
        """How many columns count."""

    @property
    def created(self) -> int:
        """The index of the first sample."""

    @property
    def last_used(self) -> int:
        """The index of the last sample assigned."""

    @property
    def centre(self) -> Array:
        """The centroid ``(D,)``."""


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
    def of(cls, clusters: Sequence[Members]) -> Listing:
        """List all members, cluster by cluster in order of creation, then by arrival."""
        if not clusters:
            return cls(np.empty((4, 0), dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64))
        whole = np.concatenate([c.whole[:, : c.size] for c in clusters], axis=1)
        doubts = np.concatenate([c.real[UNCERTAINTY, : c.size] for c in clusters])
        owner = np.arange(len(clusters), dtype=np.int64).repeat([c.size for c in clusters])
        return cls(whole, doubts, owner).take(np.lexsort((whole[SERIAL], owner)))

    def take(self, rows: Whole) -> Listing:
        """Return the members in these rows, in this order."""
        whole = self.whole.take(rows, axis=1)
        return Listing(whole, self.uncertainty.take(rows), self.owner.take(rows))
