"""multipool, our own: a pool of samples and statistics for every domain of the stream."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.decode import Said
from multipool.engine import Context, Kept, Prediction, Update
from multipool.engine.bank import WatchedBank
from multipool.engine.method import Record
from multipool.methods.multipool.accounts import KINDS, PoolInfo, listed
from multipool.methods.multipool.answering import PoolAnswers
from multipool.methods.multipool.answers import Routed
from multipool.methods.multipool.config import MultiPoolConfig
from multipool.methods.multipool.events import Event, Route, fresh_pools
from multipool.methods.multipool.one_pool import ASK
from multipool.methods.multipool.rules import Floats, Ints, distinct, stretches
from multipool.methods.multipool.shares import shown
from multipool.ops import View
from multipool.ops.host import Arriving, product, sent
from multipool.ops.padding import filled

_LOOKS = 8  # updates of a pool after which its bank is asked which classes it shows
_AT_ONCE = 8  # images after which a young pool is brought up to date


class MultiPool(PoolAnswers):
    """Sorts the stream into pools and normalises every image with the statistics of its own.

    What images look like to the source model's early layers says which pool they belong to: a known
    one, whose statistics are back at once, or a new one; mixed domains are told apart image by
    image. Statistics are renewed from the pool's bank; where it shows few classes, late layers keep
    the source's. While a pool is young, and the stream in random order, the affine parameters that
    all pools share learn by gradients.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`MultiPoolConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "multipool")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])
    """

    name = "multipool"
    normalises_by = "kept"
    takes_memory = "class-balanced"
    prefers: ClassVar[str | None] = "mcm+"
    decodes = "sequence"
    few_updates = True
    fuses = True
    view = View(reflect=True)

    def __init__(self, context: Context, config: MultiPoolConfig) -> None:
        super().__init__(context, config)
        # Statistics cannot collapse, and what a pool teaches ends; without pools it does not.
        self.self_training = self.learning is not None and self.branch is None
        if self.branch is not None:
            self._pools = [self.bank] + [self.bank.twin() for _ in range(config.most - 1)]

    def keeps(self) -> Kept:
        """Return the pools' statistics, what was learned, and the centre."""
        parts = {"learning": self.learning, "centre": self.centre}
        kept: Kept = {name: part for name, part in parts.items() if part is not None}
        return kept if self.branch is None else {**kept, "pools.statistics": self.own}

    def banks(self) -> dict[str, WatchedBank]:
        """Return the bank of each pool."""
        if self.branch is None:
            return {}
        return {f"bank{i}": bank for i, bank in enumerate(self._pools)}

    def records(self) -> dict[str, Record]:
        """Return what is kept on the host: router, counts, correlation, and what a mirror says."""
        kept: dict[str, Record] = {"mirror": self.mirror}
        if self.branch is not None or self.learning is not None:
            kept["correlation"] = self.correlation
        if self.branch is not None:
            kept |= {"router": self.router, "accounts": self.accounts, "leaning": self.leaning}
        return kept

    def facts(self) -> dict[str, object]:
        """Return what happened to the pools so far, and how many there are."""
        if self.branch is None:
            return {"pools": 0, **dict.fromkeys(KINDS, 0)}
        counted = dict(zip(KINDS, self.accounts.events.tolist(), strict=True))
        return {"pools": len(self.router.alive), "pool": self.router.active, **counted}

    def pools(self) -> list[PoolInfo]:
        """Return the pools in the order of their creation."""
        if self.branch is None:
            return []
        late, alive = float(self.late[0].mean()), self.router.alive.tolist()
        trusts = {pool: self.known_trust(pool, self.router).mean(late) for pool in alive}
        return listed(self.router, trusts)

    # Predicting ---------------------------------------------------------------------------------

    def predict(self, images: Tensor) -> Prediction:
        """Sort the images into pools and predict each with the statistics of its pool."""
        if self.branch is None:
            return self.plain(images)
        described = Arriving(self.describe(images))
        guess = self.guess(images)
        router = self.router.copy()
        events = router.look(runs := self.runs())
        route = router.sort(described.wait().numpy(), events, runs)
        if self.beside_host:  # else the other cores have the next pass to do
            router.foresee()
        fresh = fresh_pools(route.events)
        look, shows, leaned = self.answered(images, route.pools, fresh, router, guess)
        on_host = Arriving(look.logits).wait()
        features = self.features_pass(images)[0] if self.bank.needs_features else None
        said, looked = Said(self.accounts.heard(fresh), route.pools), look.looked()
        found = look.logits, None, None, features, on_host
        return Routed(*found, route, router, shows, leaned, looked=looked, said=said)

    # Learning -----------------------------------------------------------------------------------

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Give the images to their pools, update those that are due; learn from what is new."""
        pools = np.zeros(len(images), dtype=np.int64)
        assert isinstance(prediction, Routed)  # as predict made it
        self.mirror.add(prediction.looked, len(images), self.config.again)
        if prediction.route is not None:
            pools = prediction.route.pools
            yield from self._sort_in(images, prediction, prediction.route)
        else:
            yield from self.recentre(prediction)
            if self.learning is not None:  # nobody else asks without pools
                self._correlate(prediction, pools)
        if self.learning is None or self.seen(pools[0]) > self.config.learn_until:
            return  # a pool teaches while it is new
        even = self.evenness(int(pools[0]))
        length = self.learning.length(pools, self.correlation.degree, even)
        if length > 0 and self.learning.can_learn(self.network, images):
            yield partial(self.teach, self.learning.some(images), length)

    def teach(self, images: Tensor, length: float) -> Tensor:
        """Take a step of this ``length``, 0 to 1, on a batch."""
        return self.learn_pass(images, self.augmented(images), self.told(length)[0])[0]

    def _sort_in(self, images: Tensor, prediction: Routed, route: Route) -> Iterator[Update]:
        """Let the pools be what routing made them, and take the images in."""
        assert prediction.router is not None  # made together with the route
        self.router.take(prediction.router)
        for event in route.events:
            self._follow(event)
        pools, known = route.pools, prediction.labelled()
        likely = self._correlate(known, pools)
        for pool in distinct(pools):
            self.accounts.hear(pool, likely[pools == pool])
            if pool in prediction.leaned:
                self.leaning.take(pool, prediction.leaned[pool])
        if len(distinct(pools)) > 1:  # pool by pool, with one copy for all of them
            order = np.argsort(pools, kind="stable")
            known, images = known.rows(torch.from_numpy(order)), images[sent(order, self.device)]
            pools = pools[order]
        assert known.labels is not None
        for pool, start, stop in stretches(pools):
            part = known if stop - start == len(pools) else known.rows(slice(start, stop))
            self._pools[pool].add(images[start:stop], part)
            self.accounts.add(pool, known.labels.numpy()[start:stop])
            if asked := pool in prediction.shown:
                self.accounts.show(pool, *prediction.shown[pool])
            due = _AT_ONCE if self.is_young(pool, set()) else self.config.update_every
            if self.accounts.waiting[pool] >= due:
                stored = self._pools[pool].retrieve(self.config.samples)
                self.accounts.waiting[pool] = 0
                if len(stored) > 1:
                    yield partial(self.update, pool, stored, asked)

    def _correlate(self, prediction: Prediction, pools: Ints) -> Floats:
        """Let what was predicted, not decoded, say how correlated the stream is.

        Returns its probabilities ``(B, L)``.
        """
        likely: Floats = prediction.host_logits().double().softmax(dim=1).numpy()
        self.correlation.add(likely, pools)
        return likely

    def _follow(self, event: Event) -> None:
        """Let statistics and banks follow what happened to the pools."""
        pool, other, accounts = event.pool, event.other, self.accounts
        if event.kind == "merged":
            mine, theirs = accounts.updates[pool], accounts.updates[other]
            self.own[pool].lerp_(self.own[other], float(theirs / max(1, mine + theirs)))
            self._vacate(other)
        elif event.kind in ("created", "split"):
            for place in (pool, other) if event.kind == "split" else (pool,):
                self.own[place] = self.home
                self._vacate(place)
        accounts.note(event)

    def _vacate(self, place: int) -> None:
        """Forget the pool that had a place."""
        self._pools[place].bank.clear()
        self.correlation.forget(place)
        self.leaning.forget(place)

    def update(self, pool: int, stored: Retrieved, asked: bool = False) -> Tensor:
        """Move a pool's statistics to those of samples of its bank.

        Sometimes ask what these show as well, unless the images that came were ``asked``.
        """
        images = self.images_of(stored)
        rate = self.rate(pool)
        looks = not asked and self.accounts.updates[pool] % _LOOKS == 0
        self.accounts.updates[pool] += 1
        with torch.no_grad():
            trusted = self.known_trust(pool, self.router)
            images, *rows = filled(self.config.samples, images)
            weights = [part / part.sum() for part in rows]
            moved = self.move_pass(images, self.told(pool, *trusted, rate), *weights)[0].clone()
            if looks:
                asks = self.told(trusted.early, 0.0, ASK)
                logits = self.still_pass(images, self.own[pool], asks)[0]
                likely = logits[: len(stored)].double().softmax(dim=1).cpu().numpy()
                stands = self.stands_for(pool, stored.labels)
                self.accounts.show(
                    pool, product(stands[None], shown(likely))[0], self.gain(pool, images, stands)
                )
        return moved
