"""What a model says whichever class is shown: its bias, which is taken off what chains read.

A model says p(c | x) as if classes came alike. In a domain that it does not know it favours some of
them whatever comes, and a chain takes that for runs of these. What it says there on average, m, is
divided out: the likelihood of a class is p(c | x) / m(c). But runs make m uneven as well, so it is
held to be even as far as few samples are known, and never to be farther from it than by three.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from multipool.decode.belief import TEMPERATURES
from multipool.decode.chains import Array

_POWERS = -1 / TEMPERATURES[:, None]  # (T, 1)
_EVEN = 200.0  # samples' worth of the belief that no class is favoured
_MOST = 3.0  # times that a class may be said more or less often; a domain may show only one


class Said(NamedTuple):
    """What a model said of the samples of each domain so far, and which domain new ones are of."""

    sums: Array  # (D, L), of probabilities
    domains: NDArray[np.int64]  # (B,), rows of the sums

    @property
    def known(self) -> Array:
        """How much was said of each new sample's domain, ``(B,)``."""
        return np.asarray(self.sums.sum(axis=1)[self.domains])

    def part(self, piece: slice) -> Said:
        """Return the same for some of the new samples."""
        return Said(self.sums, self.domains[piece])


def check_said(said: Said, size: int, classes: int) -> None:
    """Refuse what is not said of domains, or not of so many samples and classes."""
    sums, domains = said
    if sums.ndim != 2 or sums.shape[1] != classes or not (np.isfinite(sums) & (sums >= 0)).all():
        raise ValueError(
            f"what was said of domains must be sums of probabilities of shape (D, {classes}), "
            f"finite and not below 0, got an array of shape {sums.shape}"
        )
    if domains.dtype != np.int64 or domains.shape != (size,):
        raise ValueError(
            f"domains must be int64, one a sample of {size}, got {domains.dtype} of shape "
            f"{domains.shape}"
        )
    if size and not 0 <= domains.min() <= domains.max() < len(sums):
        raise ValueError(
            f"domains must be rows of the sums, 0 to {len(sums) - 1}, got {domains.min()} to "
            f"{domains.max()}"
        )


def without_bias(emissions: Array, said: Said) -> Array:
    """Return emissions ``(B, T, L)`` as of a model that favours no class of a sample's domain."""
    used, places = np.unique(said.domains, return_inverse=True)
    weights = favoured(said.sums[used])[:, None] ** _POWERS  # (D, T, L)
    found = emissions * (weights if len(used) == 1 else weights[places])
    found /= np.add.reduce(found, axis=-1, keepdims=True)
    return np.asarray(found)


def favoured(sums: Array) -> Array:
    """Return how many times as often as evenly each class is said, ``(D, L)``, as far as known."""
    classes, count = sums.shape[1], sums.sum(axis=1, keepdims=True)
    return np.clip((sums * classes + _EVEN) / (count + _EVEN), 1 / _MOST, _MOST)
