"""Whether neighbours agree more than their domain explains, where domains are known.

Strangers some dozens of samples back tell runs from a bias (``order.py``), unless the runs are
longer than that: then strangers are of the same run. Who knows domains can compare with all that
was said of a sample's domain instead, however long its runs are. Where classes come in random
order neighbours agree as much as that does, whatever the model favours there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipool.decode.bias import Said, favoured
from multipool.decode.chains import Array, normalised
from multipool.decode.order import beyond, order_terms

_KNOWN = 128.0  # samples of a domain before which what was said of it says nothing
_MUCH = 0.25  # of what samples of one class would agree: a domain that drifts comes to half of it


def within_terms(
    plain: Array, near: Array, own: Array, domains: NDArray[np.int64], said: Said
) -> Array:
    """Return what :func:`order.order_terms` does, of samples and what is said of their domains.

    ``plain`` ``(B, L)``: emissions without the bias; ``near`` ``(B, R)`` and ``own`` ``(B,)``:
    their products with neighbours and with themselves; ``domains`` ``(R + B,)``: of the samples
    before, too. Neighbours of other domains say nothing, nor do domains of which little is known.
    """
    lags = near.shape[1]
    means = normalised((said.sums + 1e-9) / favoured(said.sums))  # (D, L)
    far = np.add.reduce(plain * means[said.domains], axis=1)
    known = said.sums.sum(axis=1)[said.domains] >= _KNOWN
    same = np.stack(
        [domains[lags:] == domains[lags - lag : len(domains) - lag] for lag in range(1, lags + 1)],
        axis=1,
    )
    same &= known[:, None]
    return order_terms(
        np.where(same, near - far[:, None], 0.0), np.where(same.any(axis=1), own - far, 0.0)
    )


def is_within(order: Array) -> bool:
    """Tell whether neighbours of one domain agree beyond chance, and much."""
    return any(
        more > beyond(squares) and more > _MUCH * most
        for more, squares, most in order[:3].T.tolist()
    )
