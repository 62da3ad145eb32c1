"""multipool: a pool of samples and statistics for every domain that the stream has shown.

Our own (no paper). The images of the stream are sorted into pools by what they look like to the
source model's early layers; each pool has a class-balanced bank and its own normalisation
statistics, which predict whatever belongs to it and are there again when its domain comes back.
Nothing is learned by gradients: on every stream we tried, statistics decide and learning does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.engine import Context, Kept, Method, Prediction, Update, tensor_pass
from multipool.engine.bank import WatchedBank
from multipool.engine.method import Record
from multipool.methods.multipool.accounts import KINDS, Accounts, PoolInfo
from multipool.methods.multipool.config import MultiPoolConfig
from multipool.methods.multipool.events import Event, Route, fresh_pools
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import projection, trust
from multipool.methods.multipool.statistics import each_image, moving, with_statistics
from multipool.ops import Group, frozen, uncertainty
from multipool.ops.moments import instance_moments

Array = npt.NDArray[Any]
_ENOUGH = 16  # images of a batch that say something about their domain by themselves
_AT_ONCE = 8  # images after which a young pool is brought up to date


@dataclass(frozen=True)
class Routed(Prediction):
    """A prediction, and where its images belong; the router as it will be, if this is learned."""

    route: Route | None = None
    router: Router | None = None


class MultiPool(Method):
    """Sorts the stream into pools and normalises every image with the statistics of its own."""

    name = "multipool"
    Config = MultiPoolConfig
    takes_memory = "class-balanced"
    prefers: ClassVar[str | None] = "mcm+"
    decodes = "sequence"
    self_training = False  # statistics cannot collapse
    few_updates = True

    def __init__(self, context: Context, config: MultiPoolConfig) -> None:
        super().__init__(context, config)
        self.branch = self.network.source
        if self.branch is None:  # nothing to normalise: the source model answers
            return
        most = config.most
        self.home = self.branch.statistics.clone()  # (S,)
        self.live = self.branch.copy()  # the statistics of the pass under way
        self.own = self.home.repeat(most, 1)  # (P, S)
        layers = self.branch.layers
        self.layer = round(config.depth * (len(layers) - 1))
        full = 2 * len(layers[self.layer].mean)
        self.projection = torch.from_numpy(projection(full, config.width)).to(self.home)
        self.router = Router(min(full, config.width), most, config.new, config.same, config.mixed)
        self.accounts = Accounts(most, self.num_classes)
        self._pools = [self.bank] + [self.bank.twin() for _ in range(most - 1)]

    def keeps(self) -> Kept:
        """Return the pools' statistics."""
        return {} if self.branch is None else {"pools.statistics": self.own}

    def banks(self) -> dict[str, WatchedBank]:
        """Return the bank of each pool."""
        if self.branch is None:
            return {}
        return {f"bank{i}": bank for i, bank in enumerate(self._pools)}

    def records(self) -> dict[str, Record]:
        """Return the router and what is counted."""
        return {} if self.branch is None else {"router": self.router, "accounts": self.accounts}

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
        router = self.router
        order = sorted(router.alive.tolist(), key=lambda p: int(router.created[p]))
        return [
            PoolInfo(
                samples=int(router.samples[p]),
                created=int(router.created[p]),
                last_used=int(router.used[p]),
                active=p == router.active,
                share=float(router.samples[p]) / max(1, int(router.numbers[0])),
                trust=self._trust(self.accounts.counts[p]),
            )
            for p in order
        ]

    # Predicting ---------------------------------------------------------------------------------

    def predict(self, images: Tensor) -> Prediction:
        """Sort the images into pools and predict each with the statistics of its pool."""
        if self.branch is None:
            logits = self._plain_pass(images)[0]
            return Prediction(logits, logits.argmax(dim=1), uncertainty(logits))
        described = self._describe_pass(images)[0].double().cpu().numpy()
        router = self.router.copy()
        route = router.route(described)
        fresh = fresh_pools(route.events)
        shares = np.array(
            [0.0 if p in fresh else self._trust(c) for p, c in enumerate(self.accounts.counts)]
        )
        logits = self._answer(images, route.pools, shares)
        logits = self._with_young(images, logits, route.pools, fresh)
        return Routed(logits, logits.argmax(dim=1), uncertainty(logits), route=route, router=router)

    def _answer(self, images: Tensor, pools: Array, shares: Array) -> Tensor:
        weights = torch.from_numpy(shares).float().to(self.device)
        first = int(pools[0])
        if (pools == first).all():
            return self._one_pool_pass(images, torch.tensor([first], device=self.device), weights)[
                0
            ]
        return self._pools_pass(images, torch.from_numpy(pools).to(self.device), weights)[0]

    def _with_young(
        self,
        images: Tensor,
        logits: Tensor,
        pools: Array,
        fresh: set[int],
    ) -> Tensor:
        """Return the logits, those of young pools with statistics that know these images too."""
        labels = logits.argmax(dim=1)
        answers = logits
        for pool in np.unique(pools).tolist():
            rows = torch.from_numpy(np.flatnonzero(pools == pool)).to(self.device)
            if len(rows) < _ENOUGH or not self._is_young(pool, fresh):
                continue
            known = labels[rows]
            here = torch.bincount(known, minlength=self.num_classes)
            counts = here.cpu().numpy().astype(np.float64)
            if pool not in fresh:
                counts = counts + self.accounts.counts[pool]
            weights = 1 / here[known].float()  # every class counts the same
            rate = 1.0 if pool in fresh else self._rate(pool)
            own = self.home if pool in fresh else self.own[pool]
            found = self._young_pass(
                images[rows],
                weights / weights.sum(),
                own,
                self._scalar(self._trust(counts)),
                self._scalar(rate),
            )[0]
            answers = answers.clone() if answers is logits else answers
            answers[rows] = found
        return answers

    # Learning -----------------------------------------------------------------------------------

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Give the images to their pools; update the statistics of those that are due."""
        if not isinstance(prediction, Routed) or prediction.route is None:
            return
        assert prediction.router is not None  # made together with the route
        self.router.take(prediction.router)
        for event in prediction.route.events:
            self._follow(event)
        pools = prediction.route.pools
        assert prediction.labels is not None
        labels = prediction.labels.cpu().numpy()
        for pool in np.unique(pools).tolist():
            rows = np.flatnonzero(pools == pool)
            chosen = slice(None) if len(rows) == len(pools) else torch.from_numpy(rows)
            chosen = chosen if isinstance(chosen, slice) else chosen.to(self.device)
            self._pools[pool].add(images[chosen], prediction.rows(chosen))
            self.accounts.add(pool, labels[rows])
            due = _AT_ONCE if self._is_young(pool, set()) else self.config.update_every
            if self.accounts.waiting[pool] >= due:
                stored = self._pools[pool].retrieve(self.config.samples)
                self.accounts.waiting[pool] = 0
                if len(stored) > 1:
                    yield partial(self.update, pool, stored)

    def _follow(self, event: Event) -> None:
        """Let statistics and banks follow what happened to the pools."""
        pool, other, accounts = event.pool, event.other, self.accounts
        if event.kind == "merged":
            mine, theirs = accounts.updates[pool], accounts.updates[other]
            self.own[pool].lerp_(self.own[other], float(theirs / max(1, mine + theirs)))
            self._pools[other].bank.clear()
        elif event.kind in ("created", "split"):
            for place in (pool, other) if event.kind == "split" else (pool,):
                self.own[place] = self.home
                self._pools[place].bank.clear()
        accounts.note(event)

    def images_of(self, stored: Retrieved) -> Tensor:
        """Return stored images ``(M, C, H, W)``, laid out for a pass."""
        return self.network.prepare(stored.images.to(self.device))

    def update(self, pool: int, stored: Retrieved) -> Tensor:
        """Move a pool's statistics to those of samples of its bank."""
        images = self.images_of(stored)
        rate = self._rate(pool)
        self.accounts.updates[pool] += 1
        with torch.no_grad():
            return self._move_pass(
                images,
                torch.tensor([pool], device=self.device),
                self._scalar(self._trust(self.accounts.counts[pool])),
                self._scalar(rate),
            )[0]

    # Rules --------------------------------------------------------------------------------------

    def _trust(self, counts: Array) -> float:
        return trust(counts, self.config.likeness, self.config.prior)

    def _scalar(self, value: float) -> Tensor:
        return torch.tensor(value, device=self.device, dtype=torch.float32)

    def _rate(self, pool: int) -> float:
        """Return the share of the next batch: a mean at first, then no less than ``rate``."""
        return max(self.config.rate, 1 / (1 + float(self.accounts.updates[pool])))

    def _is_young(self, pool: int, fresh: set[int]) -> bool:
        if pool in fresh:
            return True
        return float(self.accounts.counts[pool].sum()) < self.config.young

    # Passes -------------------------------------------------------------------------------------

    @tensor_pass
    def _plain_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self.network.plain(images),)

    @tensor_pass
    def _describe_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Describe images by mean and log-deviation of early channels, in the source's units."""
        assert self.branch is not None
        state = self.branch.layers[self.layer]
        x = self.network.before_norm(images, self.layer)
        mean, var = instance_moments(x, 0)  # (B, C)
        scale = state.var + state.eps
        spread = 0.5 * ((var + state.eps) / scale).log()
        return (torch.cat([(mean - state.mean) / scale.sqrt(), spread], dim=1) @ self.projection,)

    @tensor_pass
    def _one_pool_pass(self, images: Tensor, pool: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        """Predict a batch of one pool."""
        own, share = self.own.index_select(0, pool)[0], shares.index_select(0, pool)[0]
        self.live.statistics.copy_(torch.lerp(self.home, own, share))
        return tuple(self.network.run(Group(images, self.live, frozen)))

    @tensor_pass
    def _pools_pass(self, images: Tensor, pools: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        """Predict a batch of several pools, each image with its own statistics."""
        mixed = torch.lerp(self.home, self.own, shares[:, None])  # (P, S)
        assert self.branch is not None
        layers = with_statistics(self.branch, mixed.index_select(0, pools))
        return tuple(self.network.run(Group(images, layers, each_image)))

    @tensor_pass
    def _young_pass(
        self, images: Tensor, weights: Tensor, own: Tensor, share: Tensor, rate: Tensor
    ) -> tuple[Tensor, ...]:
        """Predict with statistics that these images have moved, and keep nothing of it."""
        assert self.branch is not None
        layers, policy = moving(self.branch, own.clone(), share, rate, weights)
        return tuple(self.network.run(Group(images, layers, policy)))

    @tensor_pass
    def _move_pass(
        self, images: Tensor, pool: Tensor, share: Tensor, rate: Tensor
    ) -> tuple[Tensor, ...]:
        """Move the statistics of one pool; return how far, in all."""
        assert self.branch is not None
        before = self.own.index_select(0, pool)[0]
        own = before.clone()
        layers, policy = moving(self.branch, own, share, rate)
        self.network.run(Group(images, layers, policy))
        self.own.index_copy_(0, pool, own[None])
        return ((own - before).square().mean(),)
