"""How each pool stands: how old it is, which classes it shows, how far it is trusted."""

from __future__ import annotations

from abc import ABC

import numpy as np
from torch import Tensor

from multipool.engine import Context
from multipool.methods.multipool.accounts import Accounts
from multipool.methods.multipool.config import MultiPoolConfig
from multipool.methods.multipool.correlation import Correlation
from multipool.methods.multipool.leaning import Leaning, reach
from multipool.methods.multipool.mirror import Mirror
from multipool.methods.multipool.passes import PoolPasses
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import Floats, effective_samples
from multipool.methods.multipool.shares import (
    EARLY,
    LATE,
    Shares,
    evenness,
    is_surer,
    shares,
)
from multipool.ops.host import sent

_IN_RUNS = 0.5  # degree from which on a pool may be a run of one class


class PoolStanding(PoolPasses, ABC):
    """What is counted for each pool, and what follows from it for its statistics."""

    def __init__(self, context: Context, config: MultiPoolConfig) -> None:
        super().__init__(context, config)
        self.correlation = Correlation(config.most, self.num_classes)
        self.mirror = Mirror(self.num_classes)
        if self.branch is None:
            return
        most, width = config.most, self.projection.shape[1]
        self.router = Router(width, most, config.new, config.same, config.mixed)
        self.accounts = Accounts(most, self.num_classes)
        self.leaning = Leaning(most)

    def trusted(
        self, pool: int, counts: Floats, uneven: float, router: Router, surer: bool = True
    ) -> Shares:
        """Return the weight of the statistics of a pool of these classes.

        ``counts`` ``(L,)`` of those predicted for all its images; how ``uneven`` those are that it
        shows, and whether its statistics make answers ``surer``.
        """
        # Where classes are known to come in runs, the samples' likeness counts for it.
        uneven = (1 - self.correlation.known) * uneven
        early, late = (EARLY, LATE) if surer else (1.0, 1.0)
        samples = self.independent(counts, early), self.independent(counts, late)
        return shares(samples, router.shift(pool), uneven, self.prior, surer)

    def independent(self, counts: Floats, times: float = 1.0) -> float:
        """Return how many independent images a pool of these ``counts`` ``(L,)`` is worth.

        To layers to which samples of one class are so many ``times`` as alike as to all.
        """
        likeness = times * self.config.likeness * self.correlation.degree
        return effective_samples(counts, min(likeness, 1.0))

    def surer(self, gain: float, shown: Floats) -> bool:
        """Tell whether a pool that has ``shown`` this ``(L + 2,)`` is answered surer, by ``gain``.

        Both summed over its images, with its statistics in early layers and without.
        """
        return is_surer(gain, shown, self.correlation.known)

    def known_trust(self, pool: int, router: Router) -> Shares:
        """Return the weight of a pool's statistics as they are."""
        accounts = self.accounts
        surer = self.surer(float(accounts.gains[pool]), accounts.shown[pool])
        return self.trusted(
            pool, accounts.counts[pool], float(accounts.uneven[pool]), router, surer
        )

    def evenness(self, pool: int) -> float:
        """Return how far a pool shows all classes, 1, or few; 1 where there are no pools."""
        return 1.0 if self.branch is None else evenness(float(self.accounts.uneven[pool]))

    def runs(self) -> float:
        """Return how much farther apart than usual domains must lie to be told from classes.

        All of ``runs`` where classes come in runs; much of it where the last pool shows few of
        them, since others may follow, and it is not known yet that this is a run.
        """
        pool = self.router.active
        even = 1.0 if pool < 0 else self.evenness(pool)
        return self.config.runs * (1 - (1 - self.correlation.degree) * even)

    def on_trial(self, pool: int, fresh: set[int], router: Router) -> int:
        """Return the pool that a pool may lean on, if that is still asked; else -1.

        Where classes come in runs, and of the pools that are no longer young and have seen more
        images the nearest, if that is near.
        """
        if self.correlation.known < _IN_RUNS:
            return -1
        begins = pool in fresh
        least = max(self.config.young, 0.0 if begins else self.seen(pool))
        older = [other for other in router.alive.tolist() if other not in fresh | {pool}]
        on, gap = router.nearest(pool, [other for other in older if self.seen(other) > least])
        if on < 0 or not gap < reach(self.seen(on), self.only_batchnorm):  # NaN is not near
            return -1
        return on if self.leaning.asks(pool, on, begins) else -1

    def stands_for(self, pool: int, labels: Tensor) -> Floats:
        """Return how many images each sample of a pool's bank stands for, ``(N,)``, N in all.

        The bank holds its classes, ``labels`` ``(N,)``, alike; the pool has seen some more often.
        """
        known = labels.clamp_min(0).cpu().numpy()  # -1: unknown
        there = np.bincount(known, minlength=self.num_classes)[known]
        seen = np.maximum(self.accounts.counts[pool][known], 1.0) / there
        return np.asarray(seen * len(seen) / seen.sum())

    def is_young(self, pool: int, fresh: set[int]) -> bool:
        """Tell whether a pool is still brought up to date whenever it is used."""
        return pool in fresh or self.seen(pool) < self.config.young

    def seen(self, pool: int) -> float:
        """Return how many images a pool has taken in; none where there are no pools."""
        return 0.0 if self.branch is None else float(self.accounts.counts[pool].sum())

    def rate(self, pool: int) -> float:
        """Return the share of the next batch: a mean at first, then no less than ``rate``."""
        return max(self.config.rate, 1 / (1 + float(self.accounts.updates[pool])))

    def told(self, *values: float) -> Tensor:
        """Return numbers that a pass is told, on the device."""
        return sent(np.array(values, dtype=np.float32), self.device)
