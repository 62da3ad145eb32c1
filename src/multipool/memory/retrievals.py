"""How many samples each cluster gives to an adaptation batch of ``n`` (Sec. 3.4).

Each function takes a view of at least one cluster, ``n`` and its options, and returns K counts;
a cluster that holds fewer gives all it has. ``None`` means one flat draw over all clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from multipool.memory.view import ClusterView


@dataclass(frozen=True)
class Shares:
    """What the strategies beyond the paper's can be tuned by."""

    horizon: float = 640.0  # recent: samples after which an unused cluster's share falls to 1/e
    minimum_mass: int = 16  # mass: a cluster with fewer members gets no more than its size


Retrieval = Callable[[ClusterView, int, Shares], "list[int] | None"]


def uniform(view: ClusterView, n: int, shares: Shares) -> list[int]:
    """Give floor(n / K) to every cluster (UCR)."""
    return [n // len(view)] * len(view)


def proportional(view: ClusterView, n: int, shares: Shares) -> None:
    """Draw from all samples alike, so a cluster gives by its size: the ablation without UCR."""


def recent(view: ClusterView, n: int, shares: Shares) -> list[int]:
    """Weigh each cluster by exp(-(now - last_used) / horizon), rounding down."""
    idle = (view.now - view.last_used).astype(np.float64)
    # Relative to the most recent one: the same shares, and never all zero.
    weights = np.exp((idle.min() - idle) / shares.horizon)
    return [int(n * weight) for weight in weights / weights.sum()]


def mass(view: ClusterView, n: int, shares: Shares) -> list[int]:
    """Give a light cluster only its size, and the rest in equal parts to the heavy ones."""
    light = view.sizes < shares.minimum_mass
    if light.all():
        return uniform(view, n, shares)
    counts = np.minimum(view.sizes, n // len(view))
    counts[~light] = (n - int(counts[light].sum())) // int((~light).sum())
    return [int(count) for count in counts]


RETRIEVALS: dict[str, Retrieval] = {
    "uniform": uniform,
    "proportional": proportional,
    "recent": recent,
    "mass": mass,
}
