"""How much sharper a model's logits must be made before its bias can be told from persistence.

A model that favours one class without being sure of it looks like a stream that stays with that
class. Of sure predictions the frequencies of the classes explain it. So logits whose softmax is
unsure on the average are multiplied by a factor first.
"""

from __future__ import annotations

import numpy as np

from multipool.decode.chains import Array
from multipool.decode.compiled import add_up

_OCTAVES = 8  # up to 256: ROID multiplies logits by a prior, about one in the number of classes
FACTORS = (1.0, *(f * 2**k for k in range(_OCTAVES) for f in (1.5, 2.0)))
_SURE = 0.6  # mean of the highest probabilities that is sharp enough


def sums(logits: Array) -> Array:
    """Return sums over the classes of exp of logits times each factor, ``(B, L)`` to ``(B, S)``.

    ``logits`` have 0 as their highest.
    """
    found = np.empty((len(FACTORS), len(logits)))
    pair = np.empty((2, *logits.shape))  # at two factors; squares cost less than exponentials
    np.exp(1.5 * logits, out=pair[0])
    np.exp(logits, out=pair[1])
    add_up(pair, found)
    return found.T


def sureness(sums: Array) -> Array:
    """Return the highest probability at each factor, and 1 to count, ``(B, S)`` to ``(B, S + 1)``.

    ``sums`` are those of :func:`sums`: the highest logit is 0.
    """
    found = np.ones((len(sums), sums.shape[1] + 1))
    np.divide(1.0, sums, out=found[:, :-1])
    return found


def choose_factor(sure: Array) -> float:
    """Return the lowest factor that is sharp enough, of :func:`sureness` added up, ``(S + 1,)``."""
    sharp = sure[:-1] >= _SURE * sure[-1]
    return FACTORS[int(sharp.argmax())] if sharp.any() else FACTORS[-1]
