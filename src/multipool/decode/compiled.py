"""The chains by compiled code (``chains.c``), which is optional, or by numpy; both say the same."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from multipool.decode import chains, order
from multipool.decode.chains import Array
from multipool.decode.order import AGREE, EVEN, FEWEST, LAGS, PAST, STRANGERS, Compared
from multipool.ops.host import product

try:
    from multipool.decode import _chains
except ImportError:  # no compiler when the package was installed
    _chains = None  # type: ignore[assignment]

VERSION = 3  # as in chains.c


def available() -> bool:
    """Return whether this version's chains were compiled and not switched off.

    ``MULTIPOOL_COMPILED=0`` in the environment switches them off.
    """
    current = getattr(_chains, "VERSION", None) == VERSION
    return current and os.environ.get("MULTIPOOL_COMPILED") != "0"


def add_up(pair: Array, found: Array) -> None:
    """Fill in sums ``(S, B)`` of powers ``(2, B, L)`` and of their squares, which use them up."""
    if available():
        _chains.sums(pair, found)
    else:
        chains.add_up(pair, found)


def compare(
    emissions: Array, same: Array, marginal: Array, shares: Array, seen: int, window: int
) -> Compared:
    """As :func:`order.compare`."""
    if not available():
        return order.compare(emissions, same, marginal, shares, seen, window)
    size, classes = emissions.shape
    found = Compared(np.empty(size), np.empty((size, LAGS)), np.empty((size, 5, LAGS)))
    even = EVEN / (window + EVEN)
    _chains.compare(
        *(same, product(emissions, marginal), shares),
        *(PAST, STRANGERS, FEWEST, max(0, PAST - seen)),
        *((1 - even) * classes, even, AGREE * classes),
        *(found.match, found.agreements, found.terms),
    )
    return found


def predict(
    emissions: Array, heat: NDArray[np.int64], before: Array, stay: Array, lag: int
) -> tuple[Array, Array]:
    """As :func:`chains.predict`, of emissions at each temperature ``(B, T, L)``.

    ``heat`` ``(G,)``: which of them a chain reads.
    """
    if not available():
        return chains.predict(emissions[:, heat], before, stay, lag)
    return _call(emissions, heat, before, stay, lag, backwards=False)


def predict_back(emissions: Array, heat: NDArray[np.int64], stay: Array, lag: int) -> Array:
    """As :func:`chains.predict_back`, of emissions at each temperature ``(B, T, L)``."""
    if not available():
        return chains.predict_back(emissions[:, heat], stay, lag)
    classes = emissions.shape[2]
    unknown = np.full((lag, len(stay), classes), 1 / classes)
    return _call(emissions, heat, unknown, stay, lag, backwards=True)[0]


def _call(
    emissions: Array,
    heat: NDArray[np.int64],
    before: Array,
    stay: Array,
    lag: int,
    backwards: bool,
) -> tuple[Array, Array]:
    size, _, classes = emissions.shape
    prior, evidence = np.empty((size, len(stay), classes)), np.empty((size, len(stay)))
    emissions, before = np.ascontiguousarray(emissions), np.ascontiguousarray(before)
    _chains.predict(emissions, heat, before, stay, lag, backwards, prior, evidence)
    return prior, evidence
