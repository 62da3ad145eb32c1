"""How images are answered once it is known which pool each belongs to."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.answers import Answer, Routed
from multipool.methods.multipool.learning import ENOUGH
from multipool.methods.multipool.pools import WINDOW
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import Floats, Ints, distinct, trust
from multipool.methods.multipool.second_look import Look, Part, SecondLook
from multipool.methods.multipool.shares import Shares, certainty, shown, unevenness
from multipool.ops import uncertainty
from multipool.ops.host import Arriving, sent

ANSWER, ASK = 0.0, 1.0  # what a pass is for


class PoolAnswers(SecondLook, ABC):
    """Answers with the statistics of pools, as far as each is trusted."""

    def plain(self, images: Tensor) -> Routed:
        """Predict with a model that keeps no statistics, re-centred by what these images add."""
        logits, exact = self.plain_pass(images)[0], None
        shift = torch.zeros((), dtype=logits.dtype, device=logits.device)
        if self.centre is not None:
            exact = logits.double()  # a copy: on a GPU the next pass writes where the logits lie
            shift = self.centre.shift(self.centre.moved(exact)).to(logits.dtype)
        part = Part(
            np.arange(len(images)), lambda _, views: self.plain_pass(views)[0] - shift, young=False
        )
        look = self.look_again(images, logits - shift, [part])
        logits, doubt = look.logits, uncertainty(look.logits)
        return Routed(logits, logits.argmax(dim=1), doubt, features=exact, looked=look.looked())

    def guess(self, images: Tensor) -> Answer | None:
        """Predict with the pool of the last images while the host sorts these, if that is free.

        A young pool is answered in another way, if a batch has images enough.
        """
        pool = self.router.active
        if not self.beside_host or pool < 0 or (self.router.owners[-WINDOW:] != pool).any():
            return None
        if len(images) >= ENOUGH and self.is_young(pool, set()):
            return None
        answer = self.of_one(images, pool, self.known_trust(pool, self.router))
        whole = Part(np.arange(len(images)), answer.again, young=False)
        return replace(answer, look=self.look_again(images, answer.logits, [whole]))

    def answered(
        self, images: Tensor, pools: Ints, fresh: set[int], router: Router, guess: Answer | None
    ) -> tuple[Look, dict[int, tuple[Floats, float]]]:
        """Answer images of these ``pools`` ``(B,)``, with a second look.

        Returns what young ones show, ``(L + 2,)`` each, and by how much they are surer so, as well.
        """
        young, logits = self.young(pools, fresh), None
        parts: list[Part] = []
        shows: dict[int, tuple[Floats, float]] = {}
        old = np.flatnonzero(np.isin(pools, list(young), invert=True))
        if len(old):
            answer = self.answer(images, pools, fresh, router, guess)
            if answer.look is not None:
                return answer.look, shows
            logits = answer.logits
            parts.append(Part(old, answer.again, young=False))
        for pool, rows in young.items():
            answer, shows[pool] = self.of_young(images, rows, pool, pool in fresh, router)
            parts.append(Part(rows, answer.again, young=True))
            if logits is None:  # theirs are all, or the others' follow
                logits = answer.logits.new_zeros(len(images), answer.logits.shape[1])
            there = sent(rows, self.device)
            logits = logits.index_copy(0, there, answer.logits.to(logits.dtype))
        assert logits is not None  # a batch is never empty
        return self.look_again(images, logits, parts), shows

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
        there, weights = sent(pools, self.device), sent(shares, self.device)
        logits = self.pools_pass(images, there, weights)[0]
        return Answer(logits, lambda rows, views: self.pools_pass(views, there[rows], weights)[0])

    def of_one(self, images: Tensor, pool: int, shares: Shares) -> Answer:
        """Return the logits of images of one pool, its statistics weighed by ``shares``."""
        told = self.own[pool], self.told(*shares, ANSWER)
        logits = self.still_pass(images, *told)[0]
        return Answer(logits, lambda _, views: self.still_pass(views, *told)[0], pool, shares)

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
