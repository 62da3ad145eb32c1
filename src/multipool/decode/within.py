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
from multipool.decode.order import LONG, beyond

_KNOWN = 128.0  # samples of a domain before which what was said of it says nothing
_MUCH = 0.25  # of what samples of one class would agree beyond what is said of a domain
_SOME = 0.1  # and beyond what was read of it; a domain whose bias drifts may come to more


def followed(plain: Array, slots: Ints, last: Array) -> Array:
    """Return the emission of the sample that each one follows, ``(B, L)``.

    ``last`` ``(S, L)``: that of the last sample in each slot before these.
    """
    by_slot = np.argsort(slots, kind="stable")
    before = np.full(len(slots), -1)
    before[by_slot[1:]] = np.where(slots[by_slot[1:]] == slots[by_slot[:-1]], by_slot[:-1], -1)
    return np.where((before < 0)[:, None], last[slots], plain[before])


def within_terms(plain: Array, near: Array, read: Array, said: Said, places: Ints) -> Array:
    """Return what is summed ``(B, 2, 3)``: how much more samples agree than their domain explains.

    That, its square, and how much more they agree with themselves; twice, since a domain is known
    in two ways. By what the model says in it, less the bias: runs hardly move that, but of a model
    that is sure it is not what the chains read. And by the mean of what they did ``read``
    ``(D, L)``, sums of it: without order samples agree as much as that says, whatever the model,
    but long runs move it. ``plain`` ``(B, L)``: emissions without the bias; ``near`` ``(B,)``:
    their products with those that they follow; ``places`` ``(B,)``: their rows of what was read.
    Domains of which little is known say nothing.
    """
    means = normalised((said.sums + 1e-9) / favoured(said.sums))  # (D, L)
    own = np.add.reduce(plain * plain, axis=1)
    terms = np.empty((len(plain), 2, 3))
    for kind, mean in enumerate((means[said.domains], normalised(read + 1e-9)[places])):
        far = np.add.reduce(plain * mean, axis=1)
        terms[:, kind, 0], terms[:, kind, 2] = near - far, own - far
    terms[:, :, 1] = terms[:, :, 0] ** 2
    known = np.minimum(said.known, read.sum(axis=1)[places])
    terms[known < _KNOWN] = 0.0
    return terms


def read_on(read: Array, plain: Array, said: Said, places: Ints) -> Array:
    """Return sums of what was read of each domain after these samples ``(B, L)``; new ones anew."""
    found = read.copy()
    found[places[said.known == 0.0]] = 0.0
    np.add.at(found, places, plain)
    return np.asarray(found * np.minimum(1.0, LONG / np.maximum(found.sum(axis=1), 1.0))[:, None])


def is_within(found: Array) -> bool:
    """Tell whether samples agree with those of their domain beyond chance, and much."""
    return all(
        more > beyond(squares) and more > share * most
        for (more, squares, most), share in zip(found.tolist(), (_MUCH, _SOME), strict=True)
    )
