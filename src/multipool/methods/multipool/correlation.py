"""How correlated the classes of a stream are, told from its predictions, right or wrong.

With d_t = p_t - (mean prediction of its pool), r = sum d_t d_(t+1) / sum d_t d_t. In a stream in
random order r is 0; where classes come in runs it is large, even if many predictions are wrong. A
model that gives one answer to everything has no d to speak of and says nothing, so what was known
before stays: it is not taken for a run of one class.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from multipool.methods.multipool.records import saved, sound
from multipool.methods.multipool.rules import Floats, Ints, distinct

_MEMORY = 1000.0  # images that are remembered
_FIRST = 8.0  # sum of squares that a stream is thought correlated for, before any is seen
_FULL = 0.3  # r from which on a stream counts as correlated through and through
_NAMES = ("means", "weights", "last", "owner", "sums")


class Correlation:
    """Products of neighbouring predictions, summed over the stream, and the mean of each pool."""

    def __init__(self, most: int, num_classes: int) -> None:
        self.means = np.zeros((most, num_classes))
        self.weights = np.zeros(most)  # images in each mean
        self.last = np.zeros(num_classes)  # the prediction before the next one
        self.owner = np.array([-1])  # its pool, -1 if there is none
        self.sums = np.array([_FIRST, _FIRST * _FULL])  # of d_t d_t and of d_t d_(t+1)

    @property
    def degree(self) -> float:
        """How far the stream is correlated, 0 (random order) to 1 (runs of one class)."""
        return min(max(float(self.sums[1] / self.sums[0] / _FULL), 0.0), 1.0)

    @property
    def known(self) -> float:
        """The degree as far as predictions have shown it: 0 before any, when 1 is a guess."""
        return self.degree * (1 - _FIRST / max(float(self.sums[0]), _FIRST))

    def add(self, predictions: Floats, pools: Ints) -> None:
        """Take probabilities ``(B, L)`` in stream order, and the pool of each."""
        if len(pools) == 1:
            self._add_one(predictions[0], int(pools[0]))
            return
        used = distinct(pools)
        for pool in used:
            mine = predictions if len(used) == 1 else predictions[pools == pool]
            self.weights[pool] = min(self.weights[pool], _MEMORY) + len(mine)
            gap = mine.mean(axis=0) - self.means[pool]
            self.means[pool] += gap * len(mine) / self.weights[pool]
        rows = np.concatenate([self.last[None], predictions])
        owners = np.concatenate([self.owner, pools])
        gaps = rows - self.means[owners[0] if used == [owners[0]] else owners]
        if owners[0] < 0:  # nothing came before
            gaps[0] = 0.0
        found = [(gaps[1:] * gaps[1:]).sum(), (gaps[:-1] * gaps[1:]).sum()]
        self.sums = self.sums * (1 - 1 / _MEMORY) ** len(pools) + np.array(found)
        self.last, self.owner = rows[-1], owners[-1:]

    def _add_one(self, prediction: Floats, pool: int) -> None:
        """Do the same for one image ``(L,)``, in fewer steps."""
        self.weights[pool] = min(self.weights[pool], _MEMORY) + 1
        mean, owner = self.means[pool], int(self.owner[0])
        mean += (prediction - mean) / self.weights[pool]
        gap = prediction - mean
        before = self.last - self.means[owner] if owner >= 0 else np.zeros(len(gap))
        found = [(gap * gap).sum(), (before * gap).sum()]  # as above: BLAS adds in its own order
        self.sums = self.sums * (1 - 1 / _MEMORY) + np.array(found)
        self.last, self.owner = prediction, np.array([pool])

    def forget(self, pool: int) -> None:
        """Let the place of a pool be taken by another."""
        self.means[pool] = 0
        self.weights[pool] = 0
        if self.owner[0] == pool:
            self.owner = np.array([-1])

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the degree depends on, now and later."""
        return saved(self, _NAMES)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state, or raise ``ValueError`` and stay as it was."""
        found = sound(self, _NAMES, state, "correlation's")
        if found["sums"][0] <= 0 or (found["weights"] < 0).any():
            raise ValueError("the correlation's state has sums or weights below zero")
        if not -1 <= int(found["owner"][0]) < len(self.weights):
            raise ValueError("the correlation's state names a pool that it does not have")
        vars(self).update(found)
