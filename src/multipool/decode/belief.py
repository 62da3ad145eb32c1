"""How literally a model is taken, and how belief is divided between that and no order at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipool.decode.chains import Array

TEMPERATURES = np.array([1.0, 1.5, 2.0])  # (T,) a network is surer than right: higher ones take
# it less literally
HEATS = len(TEMPERATURES)

_NULL_PRIOR = 0.7
_OPEN = 0.5  # more than the chains have before any evidence
_STEP = 7.5  # nats by which each higher temperature must be ahead: where order is weak, those that
# hardly say anything are the least wrong
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Belief:
    """The chains' share of belief, and each one's weight."""

    gate: float
    weights: Array  # (T,), summing to the gate; all zero when it is closed


def believe(evidence: Array, marginal: float, shown: bool = True) -> Belief:
    """Weigh chains ``(T,)`` against samples without order, all as logarithms.

    As long as no order was ``shown``, none is believed.

    Two hypotheses have no chain: every class alike, whose evidence is 0, and classes as frequent
    as they were predicted lately, whose evidence is ``marginal``. A weak model that sees one class
    everywhere looks persistent, and the second explains it. The chain of temperature 1 decides
    alone whether there is persistence, all of them how literally the model is taken then.
    """
    weights = np.zeros(HEATS)
    if not shown:
        return Belief(0.0, weights)
    found = np.log([1 - _NULL_PRIOR, _NULL_PRIOR / 2, _NULL_PRIOR / 2])
    found += [evidence[0], 0.0, marginal]
    shares = np.exp(found - found.max())
    gate = float(shares[0] / shares.sum())
    if gate > _OPEN:
        ahead = evidence - _STEP * np.arange(HEATS)
        weights = np.exp(ahead - ahead.max())
        weights *= gate / weights.sum()
    return Belief(gate, weights)


def believed(joint: Array, gained: Array, belief: Belief, plain: Array) -> Array:
    """Return log posteriors ``(B, L)`` of the chains, as far as they are believed.

    ``joint`` ``(B, T, L)``, which is used up, adds up to ``gained`` ``(B, T)``; ``plain``
    ``(B, L)``: log posteriors of the samples alone.
    """
    joint /= gained[..., None]
    posterior = np.einsum("t,btl->bl", belief.weights, joint)
    posterior += (1 - belief.gate) * np.exp(plain)
    return np.asarray(np.log(np.maximum(posterior, _TINY)))
