"""What is known about the samples of a multi-cluster memory, whoever makes the decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import log

import numpy as np
from torch import Tensor

from multipool.memory.arrivals import Arrivals
from multipool.memory.cluster import SERIAL
from multipool.memory.covariance import Covariance
from multipool.memory.distances import Array, Whole
from multipool.memory.events import new_events
from multipool.memory.listing import Listing, Members
from multipool.memory.options import MultiClusterOptions
from multipool.memory.runs import Run
from multipool.memory.view import ClusterView


class Ledger(ABC):
    """Which sample is in which cluster and in which of the K_max N slots.

    It never sees an image. The width D of the descriptors is set by the first batch.
    """

    def __init__(self, options: MultiClusterOptions) -> None:
        self.options = options
        self.events = new_events()
        self.clear()

    @abstractmethod
    def parts(self) -> Sequence[Members]:
        """Return the members of each cluster, in order of creation."""

    @abstractmethod
    def place(self, arrivals: Arrivals) -> tuple[Sequence[int] | Whole, Sequence[int] | Whole]:
        """Take in a batch; return slots and rows of the images to be written there."""

    @abstractmethod
    def adopt(self, clusters: Whole, reals: Array, wholes: Whole) -> None:
        """Take over saved clusters: sizes, created, last_used ``(3, K)``; members' rows in order.

        Members go into slots 0 to M-1 in the order given; ``wholes`` holds serial, index, label.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the numbers kept about samples."""

    def __len__(self) -> int:
        return sum(part.size for part in self.parts())

    def clear(self) -> None:
        """Forget all samples and start counting again; ``events`` go on."""
        self.serial = 0  # of the next sample
        self.now = 0  # its index: the serial number, or the number of the call
        self.covariance: Covariance | None = None
        self.width: int | None = None
        share = self.options.run_share
        self.run = None if share is None else Run(self.options.capacity, share)

    def widen(self, width: int) -> None:
        """Set D, once."""
        self.width = width
        if self.options.distance == "mahalanobis":
            self.covariance = Covariance(width)

    def check_width(self, features: Tensor | None) -> None:
        """Raise ``ValueError`` for features of another width than those before."""
        if features is not None and self.width not in (None, features.shape[1]):
            raise ValueError(
                f"features must have {self.width} columns as those before, got {features.shape[1]}"
            )

    def reals(self, descriptors: Array, uncertainty: Array) -> Array:
        """Return ``(D+2, B)``: descriptor, uncertainty and the uncertainty term of H(x)."""
        doubt = self.options.uncertainty_weight * uncertainty / log(self.options.num_classes)
        return np.vstack((descriptors.T, uncertainty, doubt))

    def doubtful(self, arrivals: Arrivals) -> Whole:
        """Return 1 where a sample may push nobody out, else 0, ``(B,)``; once for each batch."""
        if self.run is None:
            return np.zeros(len(arrivals.labels), dtype=np.int64)
        return self.run.doubtful(arrivals.labels, arrivals.uncertainty)

    def listing(self) -> Listing:
        """Return all members, cluster by cluster in order of creation, then by arrival."""
        return Listing.of(self.parts())

    def points(self) -> Array:
        """Return the descriptors of all members ``(M, D)`` in the order of the listing."""
        by_arrival = [p.real[:-2, p.whole[SERIAL, : p.size].argsort()].T for p in self.parts()]
        return np.concatenate([np.empty((0, self.width or 0)), *by_arrival])

    def view(self) -> ClusterView:
        """Return what strategies may look at."""
        parts = self.parts()
        used = np.array([(p.size, p.created, p.last_used) for p in parts], dtype=np.int64)
        sizes, created, last_used = used.reshape(-1, 3).T
        centroids = np.array([p.centre for p in parts]).reshape(len(parts), self.width or 0)
        return ClusterView(sizes, centroids, created, last_used, self.now)

    def count(self, size: int) -> None:
        """Move on after a batch of so many samples."""
        self.serial += size
        self.now += 1 if self.options.age_unit == "step" else size
        self.events["added"] += size
