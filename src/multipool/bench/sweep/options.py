"""How a sweep is carried out; nothing here changes a result."""

from __future__ import annotations

from dataclasses import dataclass

from multipool.bench.run.runner import CHECKPOINT_EVERY


@dataclass(frozen=True)
class Options:
    """Processes and threads, patience, and what a run needs of a cluster.

    None means: ``workers`` as many as there are GPUs, or cores without one; ``threads`` the cores
    shared out among them; ``gpus`` one where the cluster has some and the run may use it.
    """

    workers: int | None = None  # processes of the local backend; several may share a GPU
    threads: int | None = None  # of each process
    checkpoint_every: int = CHECKPOINT_EVERY  # batches
    retries: int = 2  # of a run whose worker died
    ray_address: str = "auto"
    cpus: float = 1.0  # a run needs, on a Ray cluster
    gpus: float | None = None  # a run needs, on a Ray cluster; 0.25: four share one

    def __post_init__(self) -> None:
        for name, low in (("workers", 1), ("threads", 1), ("checkpoint_every", 0), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < low:
                raise ValueError(f"{name} must be at least {low}, got {value}")
        if not self.cpus > 0:
            raise ValueError(f"cpus must be greater than 0, got {self.cpus}")
        if self.gpus is not None and self.gpus < 0:
            raise ValueError(f"gpus must be at least 0, got {self.gpus}")
