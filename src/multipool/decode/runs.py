"""Runs of one class: which kinds there are, and how many of each kind a stream has.

Runs of a stream are not of one length: a class is seen for two samples here and for two hundred
there, and the longer it has been seen, the longer it will be. One stay probability cannot say that.
So a run is of one of K kinds, drawn when it begins; each kind has a stay probability of its own.
How often each kind begins is learned from the stream: of the samples that seem to lie in runs of a
kind, a share of 1 - stay begins one.
"""

from __future__ import annotations

import numpy as np

from multipool.decode.chains import Array

STAYS = np.array([0.0, 0.5, 0.9, 0.98])  # (K,) stay probability in a run of each kind
KINDS = len(STAYS)
MEMORY = 2048  # samples over which beginnings are counted
_BELIEVED = np.array([0.05, 0.15, 0.4, 0.4])  # (K,) shares of the kinds before any were counted:
# a wrong answer looks like a run of one sample, so these are not believed easily
_WORTH = 16.0  # runs that this belief is worth


def beginnings(lying: Array) -> Array:
    """Return how many runs of each kind begin, of how many samples lie in such ``(..., K)``."""
    return lying * (1 - STAYS)


def begin_shares(begun: Array) -> Array:
    """Return the share of each kind among the runs that begin, of those that did ``(..., K)``."""
    total = np.add.reduce(begun, axis=-1, keepdims=True)
    return np.asarray((begun + _WORTH * _BELIEVED) / (total + _WORTH))


def resting_shares(begins: Array) -> Array:
    """Return the share of samples in runs of each kind where nothing is known, ``(..., K)``."""
    lasting = begins / (1 - STAYS)
    return np.asarray(lasting / np.add.reduce(lasting, axis=-1, keepdims=True))
