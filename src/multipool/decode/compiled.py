"""The chains by compiled code (``chains.c``), which is optional, or by numpy; both say the same."""

from __future__ import annotations

import os

import numpy as np

from multipool.decode import chains, order
from multipool.decode.chains import Array, Ints
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
    emissions: Array, before: Array, slots: Ints, stay: Array, begins: Array
) -> tuple[Array, Array]:
    """As :func:`chains.predict`."""
    if not available():
        return chains.predict(emissions, before, slots, stay, begins)
    return _call(emissions, before, slots, stay, begins, backwards=False)


def predict_back(
    emissions: Array, slots: Ints, stay: Array, begins: Array, resting: Array
) -> Array:
    """Return what the samples after say about each one, as far as the batch goes ``(B, T, K, L)``.

    Of those that none follows that is what is known of any, ``resting`` ``(T, K)``.
    """
    nothing = chains.unknown(resting, int(slots.max()) + 1, emissions.shape[2])
    if available():
        after = _call(emissions, nothing, slots, stay, begins, backwards=True)[0]
    else:
        after = chains.predict(emissions[::-1], nothing, slots[::-1], stay, begins)[0][::-1]
    after[chains.last_in_slots(slots)[1]] = nothing[0]
    return after


def _call(
    emissions: Array, before: Array, slots: Ints, stay: Array, begins: Array, backwards: bool
) -> tuple[Array, Array]:
    prior = np.empty((len(emissions), *before.shape[1:]))
    sums = np.empty(prior.shape[:3])
    emissions, before = np.ascontiguousarray(emissions), np.ascontiguousarray(before)
    _chains.predict(emissions, before, slots, stay, begins, backwards, prior, sums)
    return prior, sums
