"""Whether a newcomer far from everything opens a cluster although all ``K_max`` are taken.

Each function gets the newcomer's distance to its nearest centroid and the distance between the
two clusters that would be merged to make room.
"""

from __future__ import annotations

from collections.abc import Callable

Spawn = Callable[[float, float], bool]


def always(newcomer_gap: float, merge_gap: float) -> bool:
    """Open it: two clusters are merged for every newcomer beyond the threshold (the paper)."""
    return True


def gated(newcomer_gap: float, merge_gap: float) -> bool:
    """Open it only for a newcomer farther away than the merged two are from each other."""
    return newcomer_gap > merge_gap


SPAWNS: dict[str, Spawn] = {"always": always, "gated": gated}
