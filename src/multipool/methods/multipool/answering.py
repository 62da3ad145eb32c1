"""How images are answered once it is known which pool each belongs to."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.answers import Answer, Routed
from multipool.methods.multipool.leaning import Trial
from multipool.methods.multipool.learning import ENOUGH
from multipool.methods.multipool.one_pool import OnePool
from multipool.methods.multipool.pools import WINDOW
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import Floats, Ints, distinct
from multipool.methods.multipool.second_look import Look, Part
from multipool.methods.multipool.shares import Shares, certainty
from multipool.ops import uncertainty
from multipool.ops.host import sent


class PoolAnswers(OnePool, ABC):
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

        A young pool is answered in another way, if a batch has images enough, and one that may lean
        on another in two.
        """
        pool = self.router.active
        if not self.beside_host or pool < 0 or (self.router.owners[-WINDOW:] != pool).any():
            return None
        if len(images) >= ENOUGH and self.is_young(pool, set()):
            return None
        if self.on_trial(pool, set(), self.router) >= 0:
            return None
        answer = self.of_one(images, pool, self.known_trust(pool, self.router))
        whole = Part(np.arange(len(images)), answer.again, young=False)
        return replace(answer, look=self.look_again(images, answer.logits, [whole]))

    def answered(
        self, images: Tensor, pools: Ints, fresh: set[int], router: Router, guess: Answer | None
    ) -> tuple[Look, dict[int, tuple[Floats, float]], dict[int, Trial]]:
        """Answer images of these ``pools`` ``(B,)``, with a second look.

        Returns what young ones show, ``(L + 2,)`` each, and by how much they are surer so, as well;
        and the trials of pools that may lean on others.
        """
        young, logits = self.young(pools, fresh), None
        parts: list[Part] = []
        shows: dict[int, tuple[Floats, float]] = {}
        old = np.flatnonzero(np.isin(pools, list(young), invert=True))
        if guess is not None and self.on_trial(guess.pool, fresh, router) >= 0:
            guess = None  # by what these images have changed
        if len(old):
            answer = self.answer(images, pools, fresh, router, guess)
            if answer.look is not None:
                return answer.look, shows, {}
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
        logits, parts, trials = self._leaning(images, pools, logits, parts, fresh, router)
        return self.look_again(images, logits, parts), shows, trials

    def _leaning(
        self,
        images: Tensor,
        pools: Ints,
        logits: Tensor,
        parts: list[Part],
        fresh: set[int],
        router: Router,
    ) -> tuple[Tensor, list[Part], dict[int, Trial]]:
        """Answer images of pools that may lean on others once more, with the others' statistics.

        Returns logits and parts with the answers that are kept, and the trial of each such pool.
        """
        trials: dict[int, Trial] = {}
        for pool in distinct(pools):
            if (on := self.on_trial(pool, fresh, router)) < 0:
                continue
            if not trials:
                logits = logits.clone()  # on a GPU the next pass writes where they lie
            rows = np.flatnonzero(pools == pool)
            there = sent(rows, self.device)
            other = self.of_rows(images, rows, on, self.known_trust(on, router))
            gain = certainty(other.logits).sum() - certainty(logits[there]).sum()
            trials[pool] = Trial(on, float(gain), len(rows))
            if self.leaning.leans(pool, trials[pool], pool in fresh):
                logits = logits.index_copy(0, there, other.logits.to(logits.dtype))
                young = any(part.young and rows[0] in part.rows for part in parts)
                rest = [(np.setdiff1d(part.rows, rows), part) for part in parts]
                parts = [part._replace(rows=kept) for kept, part in rest if len(kept)]
                parts.append(Part(rows, other.again, young))
        return logits, parts, trials

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
