"""What the memory's speed is measured against: its definition, and a pool as published.

Both work one sample at a time on lists of Python objects that hold the image tensors, as the
published banks do. They are for timing only; the tests have references of their own.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class NaiveItem:
    """One stored sample."""

    image: Tensor
    uncertainty: float
    age: int = 0


@dataclass
class NaiveDescribed(NaiveItem):
    """One stored sample of the multi-cluster memory."""

    descriptor: Tensor = field(default_factory=lambda: torch.empty(0))  # (D,) float64
    index: int = 0


def _distance(a: Tensor, b: Tensor) -> float:
    return float(torch.linalg.vector_norm(a - b))


class NaiveMultiCluster:
    """The paper's memory as one writes it down first: lists of samples, tensors of numbers.

    Every centroid, age and score is computed when it is needed.
    """

    def __init__(self, num_classes: int, capacity: int, clusters: int, threshold: float) -> None:
        self.num_classes, self.capacity = num_classes, capacity
        self.most, self.threshold = clusters, threshold
        self.clusters: list[list[NaiveDescribed]] = []
        self.seen = 0

    def add_instance(self, image: Tensor, label: int, uncertainty: float) -> None:
        """Take in one image ``(C, H, W)``; the label is not used."""
        flat = image.flatten(1).double()
        moments = torch.stack((flat.mean(1), flat.var(1, correction=0)), dim=1)
        item = NaiveDescribed(image, uncertainty, 0, moments.flatten().cpu(), self.seen)
        self.seen += 1
        centres = [self._centre(cluster) for cluster in self.clusters]
        gaps = [_distance(item.descriptor, centre) for centre in centres]
        if not gaps or (min(gaps) > self.threshold and self.most > 1):
            if len(self.clusters) == self.most:
                self._consolidate(centres)
            self.clusters.append([item])
            return
        nearest = gaps.index(min(gaps))
        members = self.clusters[nearest]
        if len(members) == self.capacity:
            scores = [self._score(member, item.index, centres[nearest]) for member in members]
            members.pop(scores.index(max(scores)))
        members.append(item)

    def get_memory(self, n: int = 64) -> tuple[list[Tensor], list[float]]:
        """Return floor(n / K) images of each cluster and their ages divided by N."""
        share = n // max(1, len(self.clusters))
        drawn = [random.Random(0).sample(c, min(share, len(c))) for c in self.clusters]
        items = [item for part in drawn for item in part]
        return [i.image for i in items], [(self.seen - i.index) / self.capacity for i in items]

    def _centre(self, members: list[NaiveDescribed]) -> Tensor:
        return torch.stack([member.descriptor for member in members]).mean(dim=0)

    def _score(self, item: NaiveDescribed, now: int, centre: Tensor) -> float:
        timely = 1 / (1 + math.exp(-(now - item.index) / self.capacity))
        sure = item.uncertainty / math.log(self.num_classes)
        return timely + sure + _distance(item.descriptor, centre)

    def _consolidate(self, centres: list[Tensor]) -> None:
        gaps = [_distance(a, b) for a, b in zip(centres, centres[1:], strict=False)]
        first = gaps.index(min(gaps))
        union = self.clusters[first] + self.clusters.pop(first + 1)
        kept = sorted(union, key=lambda item: (item.uncertainty, -item.index))[: self.capacity]
        self.clusters[first] = sorted(kept, key=lambda item: item.index)


class PublishedPool:
    """A class-balanced pool that works as RoTTA's released one does.

    Each sample raises the age of every stored item, behind the released test for an empty item,
    which compares the image tensor with a word.
    """

    def __init__(self, num_classes: int, capacity: int) -> None:
        self.num_classes, self.capacity = num_classes, capacity
        self.classes: list[list[NaiveItem]] = [[] for _ in range(num_classes)]

    def add_instance(self, image: Tensor, label: int, uncertainty: float) -> None:
        """Offer one image ``(C, H, W)``."""
        if self._make_room(label, self._score(0, uncertainty)):
            self.classes[label].append(NaiveItem(image, uncertainty))
        for items in self.classes:
            for item in items:
                if item.image != "empty":
                    item.age += 1

    def get_memory(self, n: int = 64) -> tuple[list[Tensor], list[float]]:
        """Return all images, class by class, and their ages divided by N."""
        items = [item for part in self.classes for item in part]
        return [item.image for item in items], [item.age / self.capacity for item in items]

    def _score(self, age: int, uncertainty: float) -> float:
        return 1 / (1 + math.exp(-age / self.capacity)) + uncertainty / math.log(self.num_classes)

    def _make_room(self, label: int, newcomer: float) -> bool:
        sizes = [len(items) for items in self.classes]
        if sizes[label] >= self.capacity / self.num_classes:
            largest = [label]
        elif sum(sizes) < self.capacity:
            return True
        else:
            largest = [c for c, size in enumerate(sizes) if size == max(sizes)]
        scores = [
            (self._score(item.age, item.uncertainty), c, position)
            for c in largest
            for position, item in enumerate(self.classes[c])
        ]
        worst, c, position = max(scores)
        if worst <= newcomer:
            return False
        self.classes[c].pop(position)
        return True
