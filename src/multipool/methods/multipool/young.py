"""How far a pool's statistics are trusted, and how pools answer while they are young.

A stream of few classes in random order looks like one of all classes on which a shifted model
favours some: neighbours agree no more than images far apart. What tells them apart is certainty.
Statistics of all classes make the model surer than the source's do, or as sure; those of one or
two classes take away what is common to them, which is what the model knows them by.
"""

from __future__ import annotations

from abc import ABC

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.accounts import Accounts
from multipool.methods.multipool.answers import Answer
from multipool.methods.multipool.correlation import Correlation
from multipool.methods.multipool.learning import ENOUGH
from multipool.methods.multipool.passes import PoolPasses
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import (
    Floats,
    Ints,
    distinct,
    effective_samples,
    few_classes,
    trust,
)
from multipool.ops.host import sent
from multipool.ops.probability import entropy

_ASKED = 0.5  # degree of correlation from which on nobody asks: statistics are not trusted anyway


class YoungPools(PoolPasses, ABC):
    """What is known about pools, the trust that follows from it, and the answers of young ones."""

    accounts: Accounts
    correlation: Correlation

    def doubt(self, pool: int) -> float:
        """Return how surely a pool shows few classes, 0 to 1."""
        return few_classes(self.accounts.doubts[pool])

    def known_trust(self, pool: int, router: Router) -> float:
        """Return the weight of a pool's statistics beside the source's."""
        return self._trust(pool, self.accounts.counts[pool], router) * (1 - self.doubt(pool))

    def is_young(self, pool: int, fresh: set[int]) -> bool:
        """Tell whether a pool has taken in few images, or is one of the ``fresh``."""
        return pool in fresh or self.seen(pool) < self.config.young

    def seen(self, pool: int) -> float:
        """Return how many images a pool has taken in; none where there are no pools."""
        return 0.0 if self.branch is None else float(self.accounts.counts[pool].sum())

    def rate(self, pool: int) -> float:
        """Return the share of the next batch: a mean at first, then no less than ``rate``."""
        return max(self.config.rate, 1 / (1 + float(self.accounts.updates[pool])))

    def with_young(
        self, images: Tensor, answer: Answer, pools: Ints, fresh: set[int], router: Router
    ) -> tuple[Answer, dict[int, Floats]]:
        """Return the answer, that of young pools with statistics that know these images too.

        And how sure these pools' images are so far: what ``Accounts.doubts`` has to become.
        """
        young = [pool for pool in distinct(pools) if self.is_young(pool, fresh)]
        asked, doubts = self.correlation.degree < _ASKED, {}
        if young and asked:
            answer.keep()  # the source is asked, too, by the pass that made it
        found = answer.logits
        for pool in young:
            rows, new = np.flatnonzero(pools == pool), pool in fresh
            again = self._of_young(images, rows, answer, pool, new, router)
            if asked and not (new and again is None):  # else it has nothing of its own
                own = again
                if own is None:
                    own = self._undoubted(images, rows, answer, pool, router)
                before = np.zeros(3) if new else self.accounts.doubts[pool]
                doubts[pool] = before + self._certainty(images, rows, own, pool)
                doubt = few_classes(doubts[pool])
                if again is not None and doubt > 0:
                    again = self._of_young(images, rows, answer, pool, new, router, doubt)
            if again is not None and len(rows) == len(pools):
                found = again
            elif again is not None:
                found = found.clone() if found is answer.logits else found
                found[sent(rows, self.device)] = again
        return answer if found is answer.logits else Answer(found), doubts

    def _of_young(
        self,
        images: Tensor,
        rows: Ints,
        answer: Answer,
        pool: int,
        new: bool,
        router: Router,
        doubt: float = 0.0,
    ) -> Tensor | None:
        """Return the logits of ``rows`` ``(R,)``, a young pool's; None if these are too few.

        They count for their own answers, the less the more ``doubt`` there is about them.
        """
        if len(rows) < ENOUGH:
            return None
        labels = answer.on_host.wait().argmax(dim=1)[torch.from_numpy(rows)]
        here = torch.bincount(labels, minlength=self.num_classes)
        counts = here.numpy() + (0.0 if new else self.accounts.counts[pool])
        # Where classes come in runs, every class counts the same; else every image.
        weights = here[labels].float() ** -self.correlation.degree
        weights = weights / weights.sum()
        own = self.home if new else self.own[pool]
        trusted = self._trust(pool, counts, router) * (1 - doubt)
        numbers = self.numbered(trusted, 1.0 if new else self.rate(pool))
        if len(rows) == len(images):
            return self.young_pass(images, sent(weights, self.device), own, numbers)[0]
        chosen = sent(rows, self.device)
        if not self.beside_host:
            return self.young_pass(images[chosen], weights, own, numbers)[0]
        # All images, the others' weight 0: one shape for any number of rows.
        whole = torch.zeros(len(images), dtype=torch.float32)
        whole[torch.from_numpy(rows)] = weights
        return self.young_pass(images, sent(whole, self.device), own, numbers)[0][chosen]

    def _undoubted(
        self, images: Tensor, rows: Ints, answer: Answer, pool: int, router: Router
    ) -> Tensor:
        """Return the logits of some rows with a pool's statistics as if it showed all classes."""
        logits = answer.logits
        if self.doubt(pool) > 0:
            share = self._trust(pool, self.accounts.counts[pool], router)
            logits = self.one_pool_pass(images, self.numbered(pool, share))[0]
        return logits[sent(rows, self.device)]

    def _certainty(self, images: Tensor, rows: Ints, own: Tensor, pool: int) -> Floats:
        """Return the entropy of some rows' answers ``own`` ``(R, L)``, the source's, and R."""
        mine = float(entropy(own).sum())
        (source,) = self.one_pool_pass(images, self.numbered(pool, 0.0))
        return np.array([mine, float(entropy(source[sent(rows, self.device)]).sum()), len(rows)])

    def _trust(self, pool: int, counts: Floats, router: Router) -> float:
        """Return the weight of the statistics of a pool of these class ``counts`` ``(L,)``."""
        samples = effective_samples(counts, self.config.likeness * self.correlation.degree)
        return trust(samples, router.shift(pool), self.config.prior)
