"""How images are answered once it is known which pool each belongs to."""

from __future__ import annotations

from abc import ABC

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.answers import Answer
from multipool.methods.multipool.learning import ENOUGH
from multipool.methods.multipool.pools import WINDOW
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import Floats, Ints, distinct, trust
from multipool.methods.multipool.shares import Shares, certainty, shown, unevenness
from multipool.methods.multipool.standing import PoolStanding
from multipool.ops.host import Arriving, sent

ANSWER, ASK = 0.0, 1.0  # what a pass is for


class PoolAnswers(PoolStanding, ABC):
    """Answers with the statistics of pools, as far as each is trusted."""

    def guess(self, images: Tensor) -> Answer | None:
        """Predict with the pool of the last images while the host sorts these, if that is free."""
        pool = self.router.active
        if not self.beside_host or pool < 0 or (self.router.owners[-WINDOW:] != pool).any():
            return None
        return self.of_one(images, pool, self.known_trust(pool, self.router))

    def answer(
        self, images: Tensor, pools: Ints, fresh: set[int], router: Router, guess: Answer | None
    ) -> Answer:
        """Return the logits of images of these ``pools`` ``(B,)``, from what is known of them."""
        used = distinct(pools)
        shares = np.zeros((self.config.most, 2), dtype=np.float32)  # early, late
        for pool in used:
            shares[pool] = 0.0 if pool in fresh else self.known_trust(pool, router)
        if guess is not None and guess.fits(used, shares):
            return guess
        if len(used) == 1:
            return self.of_one(images, used[0], Shares(*shares[used[0]].tolist()))
        there = sent(pools, self.device), sent(shares, self.device)
        return Answer(self.pools_pass(images, *there)[0])

    def of_one(self, images: Tensor, pool: int, shares: Shares) -> Answer:
        """Return the logits of images of one pool, its statistics weighed by ``shares``."""
        return Answer(self.one_pool_pass(images, self.told(pool, *shares, ANSWER))[0], pool, shares)

    def young(self, pools: Ints, fresh: set[int]) -> dict[int, Ints]:
        """Return the young pools that a batch brings images enough to, and their rows ``(R,)``."""
        if len(pools) < ENOUGH:
            return {}
        rows = {pool: np.flatnonzero(pools == pool) for pool in distinct(pools)}
        enough = {pool: mine for pool, mine in rows.items() if len(mine) >= ENOUGH}
        return {pool: mine for pool, mine in enough.items() if self.is_young(pool, fresh)}

    def of_young(
        self, images: Tensor, rows: Ints, pool: int, fresh: bool, router: Router
    ) -> tuple[Answer, tuple[Floats, float]]:
        """Answer a young pool's ``rows`` ``(R,)`` with statistics that know these images too.

        Returns what they show, ``(L + 2,)``, and by how much they are surer so, as well.
        """
        own = self.home if fresh else self.own[pool]
        moved = 1.0 if fresh else self.rate(pool)
        known = np.zeros(self.num_classes) if fresh else self.accounts.counts[pool]
        guessed = known + len(rows) / self.num_classes  # as if they were of all classes
        early = trust(self.independent(guessed), router.shift(pool), self.prior)
        even = torch.full((len(rows),), 1 / len(rows), dtype=torch.float32)
        first = self._moved(images, rows, even, own, self.told(early, 0.0, moved, ASK))
        likely = Arriving(first.detach()).wait().double().softmax(dim=1)
        labels, here = likely.argmax(dim=1), shown(likely.numpy()).sum(axis=0)
        counts = torch.bincount(labels, minlength=self.num_classes)
        seen = here if fresh else self.accounts.with_these(pool, here)
        asked = pool, counts.numpy() + known, unevenness(seen), router
        trusted = self.trusted(*asked)
        # Where classes come in runs, every class counts the same; else every image.
        weights = counts[labels].float() ** -self.correlation.degree
        weights = weights / weights.sum()
        plain, gain = None, 0.0
        if trusted.late < trusted.early:  # few classes, or runs: are early layers worth it?
            numbers = self.told(*self.trusted(*asked, surer=False), moved, ANSWER)
            plain = self._moved(images, rows, weights, own, numbers).clone()
        answer = self._moved(images, rows, weights, own, self.told(*trusted, moved, ANSWER))
        if plain is not None:
            gain = float((certainty(answer) - certainty(plain)).sum())
            before = 0.0 if fresh else float(self.accounts.gains[pool])
            answer = answer if self.surer(before + gain, seen) else plain
        return Answer(answer), (here, gain)

    def _moved(
        self, images: Tensor, rows: Ints, weights: Tensor, own: Tensor, numbers: Tensor
    ) -> Tensor:
        """Return the logits of some ``rows`` ``(R,)`` of these ``weights`` ``(R,)``."""
        if len(rows) == len(images):
            return self.young_pass(images, sent(weights, self.device), own, numbers)[0]
        chosen = sent(rows, self.device)
        if not self.beside_host:
            return self.young_pass(images[chosen], weights, own, numbers)[0]
        # All images, the others' weight 0: one shape for any number of rows.
        whole = torch.zeros(len(images), dtype=torch.float32)
        whole[torch.from_numpy(rows)] = weights
        return self.young_pass(images, sent(whole, self.device), own, numbers)[0][chosen]

    def gain(self, pool: int, images: Tensor, stands: Floats) -> float:
        """Return by how much samples, which stand for so many images ``(N,)``, are surer.

        With the pool's statistics in early layers, that is; 0 where all layers trust it alike: it
        shows all classes, and in random order.
        """
        accounts = self.accounts
        uneven = float(accounts.uneven[pool])
        asked = pool, accounts.counts[pool], uneven, self.router
        trusted = self.trusted(*asked)
        if trusted.late == trusted.early:
            return 0.0
        sure = [
            certainty(self.of_one(images, pool, s).logits)[: len(stands)]
            for s in (trusted, self.trusted(*asked, surer=False))
        ]
        return float(stands @ (sure[0] - sure[1]))
