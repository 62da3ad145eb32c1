"""Statistics of the stream beside the chains: how often each class comes, and which lag agrees."""

from __future__ import annotations

import numpy as np

from multipool.decode.chains import Array

LAGS = 8  # the chains have one of the lags 1 to 8: up to so many cameras may take turns
_EVEN = 16  # samples' worth of the belief that all classes are alike
_AGREE = 0.8  # stay probability of the short chains by which lags are compared
_LEAD = 16.0  # nats by which a lag must be ahead of all else to be taken


def products(emissions: Array, before: Array) -> Array:
    """Return e_t . e_s of each sample with those before the batch and in it, ``(B, K + B)``."""
    return emissions @ np.concatenate([before, emissions]).T


def agreements(same: Array, classes: int) -> Array:
    """Return L times the evidence of chains that remember one sample, for each lag, ``(B, K)``."""
    now = np.arange(len(same))[:, None]
    return _AGREE * classes * same[now, now + LAGS - np.arange(1, LAGS + 1)] + (1 - _AGREE)


def running_mean(size: int, seen: int, window: int) -> Array:
    """Return the share of each sample in the mean before every later one, ``(B + 1, 1 + B)``.

    Column 0 is the mean before the batch, row t stands before sample t, row B after the batch.
    Each sample moves the mean by one over the samples seen, at most a window.
    """
    rate = 1 / np.minimum(_EVEN + seen + 1 + np.arange(size), max(window, _EVEN))
    left = np.concatenate([[1.0], np.cumprod(1 - rate)])  # of the mean before the batch
    shares = np.tril(left[:, None] / left[1:] * rate, -1)
    return np.concatenate([left[:, None], shares], axis=1)


def foretold(emissions: Array, same: Array, marginal: Array, shares: Array, window: int) -> Array:
    """Return L times e_t . pi, pi the mean before sample t with a share of even ones, ``(B,)``."""
    matches = np.concatenate([(emissions @ marginal)[:, None], same[:, LAGS:]], axis=1)
    even = _EVEN / (window + _EVEN)
    mean: Array = (shares[:-1] * matches).sum(axis=1)
    return (1 - even) * emissions.shape[1] * mean + even


def choose_lag(lag: int, agreement: Array, marginal: float) -> int:
    """Return the lag that agrees best if it is far ahead of the present one and of no order."""
    best = int(agreement.argmax())
    ahead = agreement[best] > max(agreement[lag - 1], marginal, 0.0) + _LEAD
    return best + 1 if ahead else lag


def discounted(total: Array, terms: Array, window: int) -> Array:
    """Return a sum that forgets over ``window`` samples after the rows of ``terms``."""
    keep = 1 - 1 / window
    powers = keep ** np.arange(len(terms) - 1, -1, -1)
    return np.asarray(keep ** len(terms) * total + powers @ terms)
