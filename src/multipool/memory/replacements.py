"""Which member of a full cluster makes room for a newcomer (Sec. 3.2, Eq. 5).

A replacement gets H(x) of the candidates ``(M,)``, oldest first, and of the newcomer (its age is
0), and returns a position, or ``None`` to turn the newcomer away. Ties: the older sample goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from multipool.memory.distances import Array

Replacement = Callable[[Array, float], int | None]


def timeliness(capacity: int, age_weight: float) -> Array:
    """Return the age term of H(x) for A = 0, 1, 2, ...; later ages equal the last entry.

    From A = 37 N on, 1 + exp(-A / N) is 1 in float64, so the table ends there.

    >>> timeliness(4, 1.0)[:1].tolist()
    [0.5]
    """
    ages = range(37 * capacity + 1)
    return np.array([age_weight / (1 + math.exp(-age / capacity)) for age in ages])


def always(scores: Array, newcomer: float) -> int:
    """Replace the member with the highest H(x) (the paper's text)."""
    return int(scores.argmax())


def if_worse(scores: Array, newcomer: float) -> int | None:
    """Replace it only if it scores strictly above the newcomer (RoTTA's habit)."""
    worst = int(scores.argmax())
    return worst if scores[worst] > newcomer else None


REPLACEMENTS: dict[str, Replacement] = {"always": always, "if_worse": if_worse}
