"""Pools that are parts of another: a run of one class, where classes come in runs.

Such a run lies nearly as far from its domain's centre as a domain that is much alike, and begins a
pool. That has one class's statistics, which take away what tells the class from others. So a pool
that lies near another, older one is asked whether its images are answered surer with the other's
statistics; then it is answered so, and leans on it.

Only near ones are asked: with the statistics of a domain that is far off, answers may be sure, and
wrong (blurred images taken for noisy ones are all of one class). In front of GroupNorm and
LayerNorm domains lie nearer to each other; there a pool must have seen more before others lean on
it from afar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor

from multipool.methods.multipool.records import saved, sound

_NEAR = 1.0  # squared distance of two pools: as far as a single image lies from its own
_NEARER = 0.3  # where BatchNorm stands beside other norms, as long as the other pool
_SETTLED = 2048  # has not seen so many images
_SURER = 0.05  # by which answers must be surer with the other's statistics, on average
_ENOUGH = 512  # images after which a pool that does not lean is asked no more
_MEMORY = 128.0  # images that decide: a domain that is left, and comes back, may be another
_NAMES = ("on", "gains", "images", "asked")


def reach(seen: float, only_batchnorm: bool) -> float:
    """Return how far from a pool that has ``seen`` so many images others may lie that lean on it.

    >>> reach(600, only_batchnorm=True)
    1.0
    >>> [reach(seen, only_batchnorm=False) for seen in (2047, 2048)]
    [0.3, 1.0]
    """
    return _NEAR if only_batchnorm or seen >= _SETTLED else _NEARER


class Trial(NamedTuple):
    """By how much some ``images`` are answered surer with the statistics of pool ``on``, summed."""

    on: int
    gain: float
    images: int


class Leaning:
    """On which pool each of ``most`` pools might lean, and what has been found out about that."""

    def __init__(self, most: int) -> None:
        self.on = np.full(most, -1, dtype=np.int64)  # -1: none was asked
        self.gains = np.zeros(most)  # certainty with the other's statistics, less that with its own
        self.images = np.zeros(most)  # that the gains are the sum of, as far as remembered
        self.asked = np.zeros(most, dtype=np.int64)  # all of them

    def asks(self, pool: int, on: int, fresh: bool = False) -> bool:
        """Tell whether images of a pool are to be answered with the statistics of ``on``, too.

        Nothing is known about a ``fresh`` pool, which has just begun: what is kept is of another.

        >>> leaning = Leaning(2)
        >>> leaning.asks(1, 0)
        True
        >>> leaning.take(1, Trial(0, -8.0, 512))
        >>> leaning.asks(1, 0)
        False
        """
        known = self.on[pool] == on and not fresh
        return not known or self.asked[pool] < _ENOUGH or self.leans(pool, Trial(on, 0.0, 0))

    def leans(self, pool: int, trial: Trial, fresh: bool = False) -> bool:
        """Tell whether a pool leans on another, with what a trial adds to what is known.

        >>> Leaning(2).leans(1, Trial(0, 3.0, 32))
        True
        >>> Leaning(2).leans(1, Trial(0, 1.0, 32))
        False
        """
        gain, images = (trial.gain, trial.images) if fresh else self._with(pool, trial)
        return bool(gain > _SURER * images)

    def take(self, pool: int, trial: Trial) -> None:
        """Keep what a trial has found; NaN, of a broken model, not."""
        if np.isfinite(trial.gain):
            self.gains[pool], self.images[pool] = self._with(pool, trial)
            before = self.asked[pool] if self.on[pool] == trial.on else 0
            self.on[pool], self.asked[pool] = trial.on, before + trial.images

    def forget(self, pool: int) -> None:
        """Let the place of a pool be taken by another."""
        for place in (pool, *np.flatnonzero(self.on == pool)):
            self.on[place], self.asked[place] = -1, 0
            self.gains[place] = self.images[place] = 0.0

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that moves."""
        return saved(self, _NAMES)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state, or raise ``ValueError`` and stay as it was."""
        most = len(self.on)
        found = sound(self, _NAMES, state or Leaning(most).state_dict(), "leaning pools'")
        below = any((found[name] < 0).any() for name in ("images", "asked"))
        if below or (found["on"] < -1).any() or (found["on"] >= most).any():
            raise ValueError("the leaning pools' state counts below zero or names no pool")
        vars(self).update(found)

    def _with(self, pool: int, trial: Trial) -> tuple[float, float]:
        """Return gain and images with those of a trial; as if new, if it is of another pool."""
        known = self.on[pool] == trial.on
        gain = trial.gain + (float(self.gains[pool]) if known else 0.0)
        images = trial.images + (float(self.images[pool]) if known else 0.0)
        kept = min(1.0, _MEMORY / max(images, 1.0))
        return gain * kept, images * kept
