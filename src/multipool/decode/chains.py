"""A bank of Markov chains over the classes, read forwards and backwards.

A chain with stay probability rho and lag k says that a sample has the class of the sample k before
it with probability rho, and otherwise any of the L classes alike. Read backwards it says the same.
What the model says about each sample comes in as emissions e_t(y), softmax of its logits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def predict(emissions: Array, before: Array, stay: Array, lag: int) -> tuple[Array, Array]:
    """Return what the samples before say of each one ``(B, G, L)``, and the evidence ``(B, G)``.

    ``emissions`` ``(B, G, L)``, one row a chain; ``before`` ``(k, G, L)``: posteriors of the
    ``lag`` samples before the batch; ``stay`` ``(G,)``. The evidence of a sample is
    sum_y e_t(y) prior_t(y): how well it was foretold.
    """
    size, _, classes = emissions.shape
    rho, rest = stay[:, None], (1 - stay[:, None]) / classes
    prior = np.empty_like(emissions)
    evidence = np.empty(emissions.shape[:2])
    posterior = before
    # Samples less than a lag apart do not depend on each other: a lag's worth goes at once.
    for start in range(0, size, lag):
        rows = slice(start, start + lag)
        now = prior[rows]
        np.multiply(posterior[: len(now)], rho, out=now)
        now += rest
        posterior = now * emissions[rows]
        total = np.add.reduce(posterior, axis=2)
        posterior /= total[..., None]
        evidence[rows] = total
    return prior, evidence


def predict_back(emissions: Array, stay: Array, lag: int) -> Array:
    """Return what the samples after say about each one, as far as the batch goes, ``(B, G, L)``."""
    classes = emissions.shape[2]
    unknown = np.full((lag, len(stay), classes), 1 / classes)
    return predict(emissions[::-1], unknown, stay, lag)[0][::-1]


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
