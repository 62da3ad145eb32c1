"""How much sharper a model's logits must be made before its bias can be told from persistence.

A model that favours one class without being sure of it looks like a stream that stays with that
class. Of sure predictions the frequencies of the classes explain it. So logits whose softmax is
unsure on the average are multiplied by a factor first.
"""

from __future__ import annotations

import numpy as np

from multipool.decode.chains import Array

_OCTAVES = 8  # up to 256: ROID multiplies logits by a prior, about one in the number of classes
FACTORS = (1.0, *(f * 2**k for k in range(_OCTAVES) for f in (1.5, 2.0)))
_SURE = 0.6  # mean of the highest probabilities that is sharp enough


def sureness(logits: Array) -> Array:
    """Return the highest probability of each sample at each factor, and 1 to count, ``(B, S + 1)``.

    ``logits`` ``(B, L)`` have 0 as their highest.
    """
    whole, half = np.exp(logits), np.exp(1.5 * logits)
    sums = np.ones((len(logits), len(FACTORS) + 1))
    whole.sum(axis=1, out=sums[:, 0])
    for octave in range(_OCTAVES):  # squares cost less than exponentials
        whole *= whole
        half.sum(axis=1, out=sums[:, 2 * octave + 1])
        whole.sum(axis=1, out=sums[:, 2 * octave + 2])
        half *= half
    return np.asarray(1 / sums)


def choose_factor(sums: Array) -> float:
    """Return the lowest factor that is sharp enough, of sums of :func:`sureness`, ``(S + 1,)``."""
    sharp = sums[:-1] >= _SURE * sums[-1]
    return FACTORS[int(sharp.argmax())] if sharp.any() else FACTORS[-1]
