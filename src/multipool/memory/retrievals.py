"""How many samples each cluster gives to an adaptation batch of ``n`` (Sec. 3.4).

Each function takes a view of at least one cluster and ``n``, and returns K counts; a cluster that
holds fewer gives all it has. ``None`` means one flat draw over all clusters. ``view.members`` has
age, uncertainty and label of every member, ``view.of(k)`` those of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable

from multipool.memory.view import ClusterView

Retrieval = Callable[[ClusterView, int], "list[int] | None"]


def uniform(view: ClusterView, n: int) -> list[int]:
    """Give floor(n / K) to every cluster (UCR)."""
    return [n // len(view)] * len(view)


def proportional(view: ClusterView, n: int) -> None:
    """Draw from all samples alike, so a cluster gives by its size: the ablation without UCR."""


RETRIEVALS: dict[str, Retrieval] = {
    "uniform": uniform,
    "proportional": proportional,
}
