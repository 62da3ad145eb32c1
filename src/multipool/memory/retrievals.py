"""How many samples each cluster gives to an adaptation batch of ``n``, and which (Sec. 3.4).

Each retrieval takes a view of at least one cluster and ``n``, and returns K counts; a cluster that
holds fewer gives all it has. ``None`` means one flat draw over all clusters. ``view.members`` has
age, uncertainty and label of every member, ``view.of(k)`` those of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from multipool.memory.distances import Whole
from multipool.memory.view import ClusterView, MemberView

Retrieval = Callable[[ClusterView, int], "list[int] | None"]
# Puts members, listed by arrival, into the order in which they are taken: rows of the list.
Draw = Callable[[MemberView, np.random.Generator], Whole]


def uniform(view: ClusterView, n: int) -> list[int]:
    """Give floor(n / K) to every cluster (UCR)."""
    return [n // len(view)] * len(view)


def proportional(view: ClusterView, n: int) -> None:
    """Draw from all samples alike, so a cluster gives by its size: the ablation without UCR."""


RETRIEVALS: dict[str, Retrieval] = {
    "uniform": uniform,
    "proportional": proportional,
}


def random(members: MemberView, generator: np.random.Generator) -> Whole:
    """Take members at random: one permutation."""
    return generator.permutation(len(members)).astype(np.int64, copy=False)


def newest(members: MemberView, generator: np.random.Generator) -> Whole:
    """Take the latest arrivals first; draws no random number."""
    return np.argsort(-members.serials)


DRAWS: dict[str, Draw] = {"random": random, "newest": newest}


def draw(
    view: ClusterView,
    counts: Sequence[int] | None,
    n: int,
    fill: bool,
    order: Draw,
    generator: np.random.Generator,
) -> Whole:
    """Return rows ``(M,)`` of the members, which are listed cluster by cluster.

    Each cluster in creation order gives its ``counts``, taken by ``order``; with ``fill`` the
    rest tops up to min(n, all) by ``order`` too. ``counts=None`` orders everything at once.
    """
    members = view.members
    if counts is None:
        return order(members, generator)[:n]
    chosen, start = [], 0
    for size, share in zip(view.sizes.tolist(), counts, strict=True):
        own = members.take(slice(start, start + size))
        chosen.append(order(own, generator)[:share] + start)
        start += size
    rows = np.concatenate(chosen)
    if fill:
        rest = np.ones(len(members), dtype=bool)
        rest[rows] = False
        others = np.flatnonzero(rest)
        more = order(members.take(others), generator)[: min(n, len(members)) - len(rows)]
        rows = np.concatenate((rows, others[more]))
    return rows
