"""Which member of a full cluster makes room for a newcomer (Sec. 3.2, Eq. 5).

The member with the highest H(x) is found once, for all strategies; on a tie it is the older one.
A strategy then gets its score and the newcomer's, whose age is 0, and says whether it leaves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multipool.memory.distances import Array

Replacement = Callable[[float, float], bool]
SATURATED = 37  # from A = 37 N on, 1 + exp(-A / N) is 1, so that no age term grows any more


def timeliness(ages: NDArray[np.int64], capacity: int, age_weight: float) -> Array:
    """Return the age term of H(x), lambda_t / (1 + exp(-A / N)), for ages ``(M,)``.

    >>> timeliness(np.array([0]), 4, 1.0).tolist()
    [0.5]
    """
    terms = np.divide(ages, -capacity)
    np.exp(terms, out=terms)
    terms += 1.0
    return np.divide(age_weight, terms, out=terms)


@functools.lru_cache(maxsize=4)  # one for all banks alike: each by itself is smaller than it
def timeliness_by_age(capacity: int, age_weight: float) -> Array:
    """Return the age term of H(x) for all ages from 0 on that differ in it; to be read only."""
    ages = np.arange(SATURATED * capacity + 1, dtype=np.int64)
    return timeliness(ages, capacity, age_weight)


def highest(scores: Array, serials: NDArray[np.int64], slots: NDArray[np.int64]) -> int:
    """Return the position of the highest score; among equals that of the lowest serial number.

    Scores are those of members in ``slots``, serial numbers those of all slots.

    >>> highest(np.array([1.0, 2.0, 2.0]), np.array([0, 7, 3]), np.array([0, 1, 2]))
    2
    """
    top = int(scores.argmax())
    ties = (scores == scores[top]).nonzero()[0]
    return top if len(ties) == 1 else int(ties[serials[slots[ties]].argmin()])


def always(worst: float, newcomer: float) -> bool:
    """Replace the member with the highest H(x) whoever comes (the paper's text)."""
    return True


def if_worse(worst: float, newcomer: float) -> bool:
    """Replace it only if it scores strictly above the newcomer (RoTTA's habit)."""
    return worst > newcomer


REPLACEMENTS: dict[str, Replacement] = {"always": always, "if_worse": if_worse}
