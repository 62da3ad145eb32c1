"""Statistics of the stream beside the chains: how often each class comes, and which lag agrees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from multipool.decode.chains import Array
from multipool.ops.host import product

LAGS = 8  # the chains have one of the lags 1 to 8: up to so many cameras may take turns
LINKED = 0  # or, in place of a lag: a sample follows the last one of its domain
PAST = 48  # samples that are remembered
STRANGERS = 32  # the oldest of them: what a sample has in common with these is no order
FEWEST = 8  # strangers without which neighbours are not judged, while a stream is young
_SHOWN = 3.5  # standard deviations by which neighbours must agree more than strangers do
_LEAST = 0.1  # and the share of what samples of one class would
LONG = 4096  # samples over which that is asked
EVEN = 16  # samples' worth of the belief that all classes are alike
AGREE = 0.8  # stay probability of the short chains by which lags are compared
_LEAD = 16.0  # nats by which a lag must be ahead of all else to be taken
_LEAD_SHARE = 0.5  # and the share of its own: in long runs all lags agree, by luck one the most
_BACK = PAST - np.arange(1, LAGS + 1)  # column of each lag in the first row of products


def products(emissions: Array, past: Array) -> Array:
    """Return e_t . e_s of each sample with those before the batch and in it, ``(B, P + B)``."""
    return product(emissions, np.concatenate([past, emissions]).T)


def _near(same: Array) -> Array:
    """Return e_t . e_(t-k) for each lag k, ``(B, K)``."""
    if len(same) == 1:
        return same.take(_BACK, axis=1)
    return _beside(same, PAST - LAGS, LAGS)[:, ::-1]


def _beside(same: Array, first: int, count: int) -> Array:
    """Return columns ``first`` and after of the first row, of each later one a column later."""
    row, column = same.strides
    return np.ndarray((len(same), count), same.dtype, same, first * column, (row + column, column))


def agreements(near: Array, classes: int) -> Array:
    """Return L times the evidence of chains that remember one sample, for each lag, ``(B, R)``.

    ``near``: e_t . e_s, s being the sample that t follows.
    """
    return AGREE * classes * near + (1 - AGREE)


def unlike_strangers(same: Array, seen: int) -> tuple[Array, Array]:
    """Return how much more samples agree with neighbours than with strangers, ``(B, K)``.

    And how much more with themselves, ``(B,)``, which is the most there can be. Without order the
    first is 0 in the mean, however biased or unsure the model is: it says the same of neighbours
    and of strangers. A young stream has fewer strangers, and its first samples, which have hardly
    any, count as 0.
    """
    unknown = max(0, PAST - seen)  # columns in which there is no sample yet
    few = max(0, unknown + FEWEST - STRANGERS)  # samples that have hardly any strangers
    strangers = np.add.reduce(_beside(same, 0, STRANGERS), axis=1) / STRANGERS
    for t in range(few, min(len(same), unknown)):
        strangers[t] = same[t, unknown : t + STRANGERS].mean()
    more, most = _near(same) - strangers[:, None], same.diagonal(PAST) - strangers
    more[:few] = most[:few] = 0.0
    return more, most


def order_terms(more: Array, most: Array) -> Array:
    """Return what is summed ``(B, 5, K)`` of what :func:`unlike_strangers` says.

    ``more`` and its square, ``most``, and what one lag has more than the mean of all and its
    square.
    """
    terms = np.empty((len(more), 5, LAGS))
    terms[:, 0], terms[:, 2] = more, most[:, None]
    apart = np.subtract(more, np.add.reduce(more, axis=1, keepdims=True) / LAGS, out=terms[:, 3])
    np.multiply(more, more, out=terms[:, 1])
    np.multiply(apart, apart, out=terms[:, 4])
    return terms


@dataclass(frozen=True)
class Compared:
    """What each sample has in common with those before it."""

    match: Array  # (B,) see foretold
    agreements: Array  # (B, K)
    terms: Array  # (B, 5, K) see order_terms


def compare(
    emissions: Array, same: Array, marginal: Array, shares: Array, seen: int, window: int
) -> Compared:
    """Compare samples with those before them; ``same`` are their :func:`products`."""
    return Compared(
        foretold(emissions, same, marginal, shares, window),
        agreements(_near(same), emissions.shape[1]),
        order_terms(*unlike_strangers(same, seen)),
    )


def is_shown(order: Array) -> bool:
    """Tell whether neighbours agree beyond chance, and enough to matter or at one lag above all.

    A model whose bias changes with the domain looks as if classes stayed whenever a domain begins.
    That is beyond chance in the long run; but it is seldom, so it is little, and the same at all
    lags.
    """
    # Number by number: of eight lags that takes a fifth of what numpy does.
    return any(
        (more > beyond(squares) and more > _LEAST * most) or apart > beyond(apart_squares)
        for more, squares, most, apart, apart_squares in order.T.tolist()
    )


def beyond(squares: float) -> float:
    """Return what a sum of so large squares does not exceed by chance."""
    return _SHOWN * sqrt(squares) + 1e-12


def newest_share(seen: int, window: int) -> float:
    """Return the share of the next sample in the mean after it."""
    return 1 / min(EVEN + seen + 1, max(window, EVEN))


def running_mean(size: int, seen: int, window: int) -> Array:
    """Return the share of each sample in the mean before every later one, ``(B + 1, 1 + B)``.

    Column 0 is the mean before the batch, row t stands before sample t, row B after the batch.
    Each sample moves the mean by one over the samples seen, at most a window.
    """
    most = max(window, EVEN)
    return _shares(size, seen, most) if seen < most else _shares_later(size, most)


@lru_cache(maxsize=2)
def _shares_later(size: int, most: int) -> Array:
    """Return what :func:`running_mean` does from some sample on, whichever it is."""
    return _shares(size, most, most)


def _shares(size: int, seen: int, most: int) -> Array:
    rate = 1 / np.minimum(EVEN + seen + 1 + np.arange(size), most)
    left = np.concatenate([[1.0], np.cumprod(1 - rate)])  # of the mean before the batch
    shares = np.concatenate([left[:, None], np.tril(left[:, None] / left[1:] * rate, -1)], axis=1)
    shares.flags.writeable = False
    return shares


def foretold(emissions: Array, same: Array, marginal: Array, shares: Array, window: int) -> Array:
    """Return L times e_t . pi, pi the mean before sample t with a share of even ones, ``(B,)``."""
    even, mean = EVEN / (window + EVEN), product(emissions, marginal)
    if len(emissions) > 1:  # else there is nothing but the mean so far
        matches = np.concatenate([mean[:, None], same[:, PAST:]], axis=1)
        mean = np.add.reduce(shares[:-1] * matches, axis=1)
    return (1 - even) * emissions.shape[1] * mean + even


def choose_lag(lag: int, agreement: Array, marginal: float) -> int:
    """Return the lag that agrees best if it is far ahead of the present one and of no order.

    ``agreement`` ``(R + 1,)``: of each lag, and of samples linked by their domain.
    """
    best = int(agreement.argmax())
    # A multiple of the right lag agrees as much as that: back to a shorter one is easier.
    shorter = 0 < best + 1 < lag
    lead = _LEAD if shorter else max(_LEAD, _LEAD_SHARE * agreement[best])
    # Of samples linked by their domain the agreement comes last, and so does place -1.
    ahead = agreement[best] > max(agreement[lag - 1], marginal, 0.0) + lead
    return (best + 1) % (LAGS + 1) if ahead else lag


def discounted(total: Array, terms: Array, window: int) -> Array:
    """Return a sum that forgets over ``window`` samples after the rows of ``terms``."""
    if len(terms) == 1:  # a camera that sends image by image asks for this five times each
        return np.asarray((1 - 1 / window) * total + terms[0])
    powers, kept = _powers(len(terms), window)
    weighted = np.dot(powers, terms.reshape(len(terms), -1))
    return np.asarray(kept * total + weighted.reshape(total.shape))


@lru_cache(maxsize=16)
def _powers(count: int, window: int) -> tuple[Array, float]:
    """Return what is left of each of ``count`` samples, ``(1, B)``, and of all before them."""
    keep = 1 - 1 / window
    powers = np.asarray(keep ** np.arange(count - 1, -1, -1), dtype=np.float64)[None]
    powers.flags.writeable = False
    return powers, keep**count
