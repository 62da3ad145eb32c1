"""Markov chains over the classes, read forwards and backwards.

A sample lies in a run of one class, and the run is of one of K kinds. With the stay probability of
its kind the sample that follows lies in the same run; otherwise another begins, of any of the L
classes alike, and of each kind as often as such runs begin. Read backwards it says the same.
Which sample follows which is told by slots: all in one, or every second in another, or those of
each domain in one of its own.
What the model says about each sample comes in as emissions e_t(y), softmax of its logits, once for
each temperature; each is read by a chain of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def predict(
    emissions: Array, before: Array, slots: Ints, stay: Array, begins: Array
) -> tuple[Array, Array]:
    """Return what the samples before say of each one ``(B, T, K, L)``, and sums ``(B, T, K)``.

    ``emissions`` ``(B, T, L)``; ``before`` ``(S, T, K, L)``: posteriors of the last sample in each
    slot before the batch; ``slots`` ``(B,)``: a sample follows the last one in its slot; ``stay``
    ``(K,)``; ``begins`` ``(T, K)``. The sums are those over the classes of prior times emission.
    Over the kinds they add up to the evidence of a sample, how well it was foretold.
    """
    size, _, classes = emissions.shape
    prior = np.empty((size, *before.shape[1:]))
    sums = np.empty(prior.shape[:3])
    one = np.ones((before.shape[1], 1))
    lying = np.add.reduce(before, axis=3)
    seen = {slot: (joint, lying[slot], one) for slot, joint in enumerate(before)}
    for t, slot in enumerate(slots.tolist()):
        joint, found, total = seen[slot]  # their division is left to the next step
        ending = np.add.reduce(found / total * (1 - stay), axis=1)  # (T,)
        now = np.multiply(joint, (stay / total)[..., None], out=prior[t])  # (T, K, L)
        now += (begins * (ending / classes)[:, None])[..., None]
        joint = now * emissions[t, :, None]
        found = np.add.reduce(joint, axis=2, out=sums[t])
        seen[slot] = joint, found, np.add.reduce(found, axis=1)[:, None]
    return prior, sums


def last_in_slots(slots: Ints) -> tuple[Ints, Ints]:
    """Return the slots ``(U,)`` that are used, and the last sample of each ``(U,)``."""
    used, places = np.unique(slots[::-1], return_index=True)
    return used, len(slots) - 1 - places


def unknown(resting: Array, slots: int, classes: int) -> Array:
    """Return posteriors ``(S, T, K, L)`` of samples of which nothing is known.

    ``resting`` ``(T, K)``: the share of all samples that lie in runs of each kind.
    """
    alike = np.repeat((resting / classes)[..., None], classes, axis=-1)
    return np.broadcast_to(alike, (slots, *alike.shape))


def from_both_sides(prior: Array, after: Array, resting: Array) -> Array:
    """Return what all other samples say of each one, ``(B, T, L)``.

    ``prior`` and ``after`` ``(B, T, K, L)``: what those before and those after say; both know what
    is known of any sample, ``resting``.
    """
    joint = prior * after
    joint /= resting[:, :, None]
    return normalised(np.add.reduce(joint, axis=2))


def add_up(pair: Array, found: Array) -> None:
    """Fill in sums ``(S, B)`` over the classes of two powers ``(2, B, L)`` and of their squares.

    First the second one's; then, again and again, those of the first and of the second's square,
    and both are squared. They are used up.
    """
    np.add.reduce(pair[1], axis=1, out=found[0])
    pair[1] *= pair[1]
    for row in range(1, len(found), 2):
        np.add.reduce(pair, axis=2, out=found[row : row + 2])
        pair *= pair


def normalised(products: Array) -> Array:
    """Return the rows divided by their sums."""
    return products / products.sum(axis=-1, keepdims=True)
