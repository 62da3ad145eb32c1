"""What happens once all ``K_max`` clusters are taken: which two merge, and who stays (Sec. 3.3).

Each consolidation (Table 4) takes a view of at least two clusters and the distance from points
``(M, D)`` to a point ``(D,)`` or to one each ``(M, D)``, and returns positions ``i < j``; ``None``
means: merge nothing, the newcomer joins its nearest cluster. Ties go to the lowest position. Each
spawn then gets the newcomer's distance to its nearest centroid and the distance between those two
clusters, and says whether they are merged for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from multipool.memory.distances import Array, Whole
from multipool.memory.view import ClusterView

Pair = tuple[int, int]
Gaps = Callable[[Array, Array], Array]
Consolidation = Callable[[ClusterView, Gaps], Pair | None]
Spawn = Callable[[float, float], bool]


def adjacent(view: ClusterView, gaps: Gaps) -> Pair:
    """Choose the closest pair among clusters created one after the other (ACC), in O(K)."""
    points = view.centroids
    first = int(gaps(points[1:], points[:-1]).argmin())
    return first, first + 1


def closest(view: ClusterView, gaps: Gaps) -> Pair:
    """Choose the closest pair of all (GCC), in O(K^2)."""
    points, best, pair = view.centroids, np.inf, (0, 1)
    for k in range(len(view) - 1):
        row = gaps(points[k + 1 :], points[k])  # (K-1-k,)
        near = int(row.argmin())
        if row[near] < best:
            best, pair = row[near], (k, k + 1 + near)
    return pair


def smallest(view: ClusterView, gaps: Gaps) -> Pair:
    """Choose the cluster with the fewest samples and the one nearest to it (the paper's SCM)."""
    return _with_nearest(int(view.sizes.argmin()), view, gaps)


def least_recent(view: ClusterView, gaps: Gaps) -> Pair:
    """Choose the least recently assigned cluster and the one nearest to it (LRU)."""
    return _with_nearest(int(view.last_used.argmin()), view, gaps)


def no_merge(view: ClusterView, gaps: Gaps) -> None:
    """Choose nothing: at K_max the sample goes to the nearest cluster."""


def _with_nearest(chosen: int, view: ClusterView, gaps: Gaps) -> Pair:
    row = gaps(view.centroids, view.centroids[chosen])
    row[chosen] = np.inf
    near = int(row.argmin())
    return min(chosen, near), max(chosen, near)


def keep(
    uncertainty: Array, serials: Whole, labels: Whole, capacity: int, class_quota: int | None
) -> Whole:
    """Return the positions of those who stay of a union of two clusters.

    The ``capacity`` members of lowest uncertainty; among equals the newer. With a quota, no more
    than so many of one known label.

    >>> union = np.array([0.2, 0.1, 0.2]), np.array([7, 8, 9]), np.array([3, 3, 3])
    >>> keep(*union, capacity=2, class_quota=None).tolist()
    [1, 2]
    """
    ranked = np.lexsort((-serials, uncertainty))
    if class_quota is not None:
        seen: Counter[int] = Counter()
        kept = []
        for position, label in zip(ranked.tolist(), labels[ranked].tolist(), strict=True):
            seen[label] += 1
            if label < 0 or seen[label] <= class_quota:
                kept.append(position)
        ranked = np.array(kept, dtype=np.int64)
    return ranked[:capacity]


CONSOLIDATIONS: dict[str, Consolidation] = {
    "acc": adjacent,
    "gcc": closest,
    "smallest": smallest,
    "lru": least_recent,
    "none": no_merge,
}


def always(newcomer_gap: float, merge_gap: float) -> bool:
    """Open it: two clusters are merged for every newcomer beyond the threshold (the paper)."""
    return True


def gated(newcomer_gap: float, merge_gap: float) -> bool:
    """Open it only for a newcomer farther away than the merged two are from each other."""
    return newcomer_gap > merge_gap


SPAWNS: dict[str, Spawn] = {"always": always, "gated": gated}
