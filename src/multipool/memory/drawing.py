"""Choose the samples of an adaptation batch, without repeats (Sec. 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from multipool.memory.distances import Whole
from multipool.memory.view import ClusterView, MemberView

# Puts members, listed by arrival, into the order in which they are taken: rows of the list.
Draw = Callable[[MemberView, np.random.Generator], Whole]


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
