"""Which chains there are, and how belief is divided between them and no chain at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipool.decode.chains import Array

TEMPERATURES = (1.0, 1.5, 2.0)  # a network is surer than right: higher ones take it less literally
_STAYS = (0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99)
_SOFT_STAYS = (0.9, 0.98)  # of the chains above temperature 1, which matter for long runs only

STAY = np.array([*_STAYS, *(stay for _ in TEMPERATURES[1:] for stay in _SOFT_STAYS)])  # (G,)
HEAT = np.array(
    [0] * len(_STAYS) + [t for t in (1, 2) for _ in _SOFT_STAYS], dtype=np.int64
)  # (G,)
CHAINS = len(STAY)

_GATING = len(_STAYS)  # the chains of temperature 1 decide alone whether there is persistence
_NULL_PRIOR = 0.7
_OPEN = 0.5  # more than the chains have before any evidence
_PERSISTENT = 0.8  # with weak persistence, higher temperatures were measured to do harm
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Belief:
    """The chains' share of belief, what they are expected to stay, and each one's weight."""

    gate: float
    persistence: float
    weights: Array  # (G,), summing to the gate; all zero when it is closed


def believe(evidence: Array, marginal: float, shown: bool = True) -> Belief:
    """Weigh chains ``(G,)`` against samples without order, all as logarithms.

    As long as no order was ``shown``, none is believed.

    Two hypotheses have no chain: every class alike, whose evidence is 0, and classes as frequent
    as they were predicted lately, whose evidence is ``marginal``. A weak model that sees one class
    everywhere looks persistent, and the second explains it.
    """
    if not shown:
        return Belief(0.0, 0.0, np.zeros(CHAINS))
    rivals = np.log(_NULL_PRIOR / 2) + np.array([0.0, marginal])
    chains = np.log((1 - _NULL_PRIOR) / _GATING) + evidence[:_GATING]
    top = max(rivals.max(), chains.max())
    shares, rest = np.exp(chains - top), np.exp(rivals - top).sum()
    shares /= shares.sum() + rest
    gate = float(shares.sum())
    weights = np.zeros(CHAINS)
    if gate <= _OPEN:
        return Belief(gate, 0.0, weights)
    persistence = float(shares @ STAY[:_GATING])
    if persistence < _PERSISTENT:
        weights[:_GATING] = shares
    else:
        weights = np.exp(evidence - evidence.max())
    weights[weights < _NEGLIGIBLE * weights.sum()] = 0.0  # chains that need no backward pass
    return Belief(gate, persistence, weights * (gate / weights.sum()))
