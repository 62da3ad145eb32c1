"""How images of one pool are answered, with statistics that are known or that they have moved."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.answers import Answer
from multipool.methods.multipool.learning import ENOUGH
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import Floats, Ints, distinct, trust
from multipool.methods.multipool.second_look import SecondLook
from multipool.methods.multipool.shares import Shares, certainty, shown, unevenness
from multipool.ops.host import Arriving, sent

ANSWER, ASK = 0.0, 1.0  # what a pass is for


class OnePool(SecondLook, ABC):
    """Answers images of one pool; those of a young one with statistics that know them too."""

    def of_one(self, images: Tensor, pool: int, shares: Shares) -> Answer:
        """Return the logits of images of one pool, its statistics weighed by ``shares``."""
        told = self.own[pool], self.told(*shares, ANSWER)
        logits = self.still_pass(images, *told)[0]
        return Answer(logits, lambda _, views: self.still_pass(views, *told)[0], pool, shares)

    def of_rows(self, images: Tensor, rows: Ints, pool: int, shares: Shares) -> Answer:
        """Return the logits of some ``rows`` ``(R,)`` with the statistics of a pool."""
        if len(rows) == len(images):
            return self.of_one(images, pool, shares)
        there = sent(rows, self.device)
        if not self.beside_host:
            return self.of_one(images[there], pool, shares)
        answer = self.of_one(images, pool, shares)  # one shape for any number of rows
        return replace(answer, logits=answer.logits[there])

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
        first = self._young(images, rows, even, own, self.told(early, 0.0, moved, ASK))[0]
        likely = Arriving(first.detach()).wait().double().softmax(dim=1)
        labels, here = likely.argmax(dim=1), shown(likely.numpy()).sum(axis=0)
        counts = torch.bincount(labels, minlength=self.num_classes)
        seen = here if fresh else self.accounts.with_these(pool, here)
        asked = pool, counts.numpy() + known, unevenness(seen), router
        trusted = self.trusted(*asked)
        # Where classes come in runs, every class counts the same; else every image.
        weights = counts[labels].float() ** -self.correlation.degree
        weights = weights / weights.sum()
        answer, gain = self._moved(images, rows, weights, own, trusted, moved), 0.0
        if trusted.late < trusted.early:  # few classes, or runs: are early layers worth it?
            shares = self.trusted(*asked, surer=False)
            plain = self._moved(images, rows, weights, own, shares, moved)
            gain = float((certainty(answer.logits) - certainty(plain.logits)).sum())
            before = 0.0 if fresh else float(self.accounts.gains[pool])
            answer = answer if self.surer(before + gain, seen) else plain
        return answer, (here, gain)

    def _moved(
        self, images: Tensor, rows: Ints, weights: Tensor, own: Tensor, shares: Shares, rate: float
    ) -> Answer:
        """Answer some ``rows`` ``(R,)``, weighing the statistics that they have moved."""
        numbers = self.told(*shares, rate, ANSWER)
        logits, moved = (x.clone() for x in self._young(images, rows, weights, own, numbers))
        told = self.told(*shares, ANSWER)
        return Answer(logits, lambda _, views: self.still_pass(views, moved, told)[0])

    def _young(
        self, images: Tensor, rows: Ints, weights: Tensor, own: Tensor, numbers: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of ``rows`` ``(R,)`` of these ``weights``, and what they move to."""
        if len(rows) == len(images):
            logits, moved = self.young_pass(images, sent(weights, self.device), own, numbers)
            return logits, moved
        chosen = sent(rows, self.device)
        if not self.beside_host:
            logits, moved = self.young_pass(images[chosen], weights, own, numbers)
            return logits, moved
        # All images, the others' weight 0: one shape for any number of rows.
        whole = torch.zeros(len(images), dtype=torch.float32)
        whole[torch.from_numpy(rows)] = weights
        logits, moved = self.young_pass(images, sent(whole, self.device), own, numbers)
        return logits[chosen], moved

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
