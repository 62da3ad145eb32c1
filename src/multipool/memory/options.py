"""The multi-cluster memory's options, checked once where they enter."""

from __future__ import annotations

from dataclasses import dataclass

from multipool.core import lookup
from multipool.memory.checks import MOST_CLASSES, MOST_SAMPLES, number, one_of, whole
from multipool.memory.consolidations import CONSOLIDATIONS, SPAWNS
from multipool.memory.descriptors import DESCRIPTORS
from multipool.memory.distances import DISTANCES, default_threshold
from multipool.memory.replacements import REPLACEMENTS
from multipool.memory.retrievals import DRAWS, RETRIEVALS
from multipool.memory.store import STORAGES

AGE_UNITS = ("sample", "step")


@dataclass(frozen=True)
class MultiClusterOptions:
    """Everything that shapes a :class:`MultiClusterMemory`; its docstring explains each."""

    num_classes: int
    capacity: int = 64
    max_clusters: int | None = None
    threshold: float | None = None
    descriptor: str = "pixel"
    distance: str = "l2"
    consolidation: str = "acc"
    retrieval: str = "uniform"
    spawn: str = "always"
    replacement: str = "always"
    fill: bool = False
    storage: str = "uint8"
    age_weight: float = 1.0
    uncertainty_weight: float = 1.0
    distance_weight: float = 1.0
    age_unit: str = "sample"
    seed: int = 0
    class_quota: int | None = None
    draw: str = "random"
    run_share: float | None = None

    def __post_init__(self) -> None:
        whole("num_classes", self.num_classes, 2, MOST_CLASSES)
        whole("capacity", self.capacity, 1)
        whole("seed", self.seed, 0)
        for name in ("max_clusters", "class_quota"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        if self.slots > MOST_SAMPLES:
            raise ValueError(
                f"a memory holds at most {MOST_SAMPLES:,} samples, got {self.clusters} clusters "
                f"of {self.capacity}"
            )
        for name in ("age_weight", "uncertainty_weight", "distance_weight"):
            number(name, getattr(self, name))
        lookup(DESCRIPTORS, self.descriptor, "descriptor")
        lookup(DISTANCES, self.distance, "distance")
        lookup(CONSOLIDATIONS, self.consolidation, "consolidation")
        lookup(RETRIEVALS, self.retrieval, "retrieval")
        lookup(DRAWS, self.draw, "draw")
        lookup(SPAWNS, self.spawn, "spawn")
        lookup(REPLACEMENTS, self.replacement, "replacement")
        one_of("storage", self.storage, STORAGES)
        one_of("age_unit", self.age_unit, AGE_UNITS)
        if not isinstance(self.fill, bool):
            raise ValueError(f"fill must be True or False, got {self.fill!r}")
        if self.run_share is not None and not 0.5 < number("run_share", self.run_share) <= 1:
            raise ValueError(f"run_share must be above 0.5 and at most 1, got {self.run_share}")
        if self.threshold is not None:
            number("threshold", self.threshold, infinite=True)
        else:
            default_threshold(self.descriptor, self.distance)

    @property
    def clusters(self) -> int:
        """K_max, by the paper's rule where it is not given (Sec. 4.1)."""
        return self.max_clusters or min(5, max(1, self.num_classes // 20))

    @property
    def slots(self) -> int:
        """The images that fit in: K_max N."""
        return self.clusters * self.capacity

    @property
    def tau(self) -> float:
        """The threshold, by the paper's rule where it is not given."""
        if self.threshold is None:
            return default_threshold(self.descriptor, self.distance)
        return float(self.threshold)
