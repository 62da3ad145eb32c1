"""The chains by compiled code (``chains.c``), which is optional, or by numpy; both say the same."""

from __future__ import annotations

import os

import numpy as np

from multipool.decode import chains, order
from multipool.decode.chains import Array
from multipool.decode.order import AGREE, EVEN, FEWEST, LAGS, PAST, STRANGERS, Compared
from multipool.ops.host import product

try:
    from multipool.decode import _chains
except ImportError:  # no compiler when the package was installed
    _chains = None  # type: ignore[assignment]

VERSION = 4  # as in chains.c


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
    emissions: Array, before: Array, stay: Array, begins: Array, lag: int
) -> tuple[Array, Array]:
    """As :func:`chains.predict`."""
    if not available():
        return chains.predict(emissions, before, stay, begins, lag)
    return _call(emissions, before, stay, begins, lag, backwards=False)


def predict_back(emissions: Array, stay: Array, begins: Array, resting: Array, lag: int) -> Array:
    """Return what the samples after say about each one, as far as the batch goes ``(B, T, K, L)``.

    Of the last ``lag`` samples that is what is known of any, ``resting`` ``(T, K)``.
    """
    nothing = chains.unknown(resting, lag, emissions.shape[2])
    if available():
        after = _call(emissions, nothing, stay, begins, lag, backwards=True)[0]
    else:
        after = chains.predict(emissions[::-1], nothing, stay, begins, lag)[0][::-1]
    after[-lag:] = nothing[: len(after)]
    return after


def _call(
    emissions: Array, before: Array, stay: Array, begins: Array, lag: int, backwards: bool
) -> tuple[Array, Array]:
    prior = np.empty((len(emissions), *before.shape[1:]))
    sums = np.empty(prior.shape[:3])
    emissions, before = np.ascontiguousarray(emissions), np.ascontiguousarray(before)
    _chains.predict(emissions, before, stay, begins, lag, backwards, prior, sums)
    return prior, sums
