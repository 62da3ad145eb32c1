"""Whether samples agree with those before them in their domain, where domains are known.

Strangers some dozens of samples back tell runs from a bias (``order.py``), unless the runs are
longer than that: then strangers are of the same run. Who knows domains can compare with all that
was said of a sample's domain instead, however long its runs are. Where classes come in random
order samples agree with each other as much as with that, whatever the model favours there.
"""

from __future__ import annotations

import numpy as np

from multipool.decode.bias import Said, favoured
from multipool.decode.chains import Array, Ints, normalised
from multipool.decode.order import beyond

_KNOWN = 128.0  # samples of a domain before which what was said of it says nothing
_MUCH = 0.25  # of what samples of one class would agree: a domain that drifts comes to half of it


def followed(plain: Array, slots: Ints, last: Array) -> Array:
    """Return the emission of the sample that each one follows, ``(B, L)``.

    ``last`` ``(S, L)``: that of the last sample in each slot before these.
    """
    by_slot = np.argsort(slots, kind="stable")
    before = np.full(len(slots), -1)
    before[by_slot[1:]] = np.where(slots[by_slot[1:]] == slots[by_slot[:-1]], by_slot[:-1], -1)
    return np.where((before < 0)[:, None], last[slots], plain[before])


def within_terms(plain: Array, near: Array, said: Said) -> Array:
    """Return what is summed ``(B, 3)``: how much more samples agree than their domain explains.

    That, its square, and how much more they agree with themselves. ``plain`` ``(B, L)``: emissions
    without the bias; ``near`` ``(B,)``: their products with those that they follow. Domains of
    which little is known say nothing.
    """
    means = normalised((said.sums + 1e-9) / favoured(said.sums))  # (D, L)
    far = np.add.reduce(plain * means[said.domains], axis=1)
    more, most = near - far, np.add.reduce(plain * plain, axis=1) - far
    terms = np.stack([more, more * more, most], axis=1)
    terms[said.sums.sum(axis=1)[said.domains] < _KNOWN] = 0.0
    return terms


def is_within(found: Array) -> bool:
    """Tell whether samples agree with those of their domain beyond chance, and much."""
    more, squares, most = found.tolist()
    return bool(more > beyond(squares) and more > _MUCH * most)
