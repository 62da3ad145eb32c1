"""One stream: an adapter, what is counted about it, and what it tells after each batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from multipool.engine import Adapter
from multipool.ops import entropy

_OVERHEAD = 2**19  # bytes of Python's objects around an adapter, measured
_WEIGHED = 16  # batches between two looks at how much memory a stream takes
_POOL_EVENTS = ("created", "recalled", "merged", "split")  # of the method's own counts


@dataclass(frozen=True)
class Facts:
    """What operators see of a stream; plain values, so that they travel between processes."""

    batches: int = 0  # learned from, since the stream began
    images: int = 0
    updates: int = 0
    skipped: int = 0
    restored: int = 0
    estimate: float | None = None  # expected accuracy, without labels
    entropy: float = 0.0  # nats a prediction, mean of the last batch
    pools: int | None = None  # None: the method keeps none
    pool: int | None = None  # the one in use
    nbytes: int = 0  # of memory that it takes, as counted now and then
    news: tuple[tuple[str, int], ...] = ()  # what was counted since the last facts


@dataclass(frozen=True)
class Answer:
    """Logits ``(B, L)`` float32 on the CPU, and the facts after them."""

    logits: Tensor
    facts: Facts


Early = Callable[[Answer], None]


@dataclass(frozen=True)
class Snapshot:
    """All that a file of a stream holds, taken at one moment."""

    state: dict[str, Tensor]
    recipe: dict[str, Any]


@dataclass
class Counts:
    """What a stream counts and its file keeps."""

    batches: int = 0
    images: int = 0
    created: float = field(default_factory=time.time)  # seconds since 1970

    @classmethod
    def of(cls, notes: Mapping[str, Any]) -> Counts:
        """Return what a file says; what it does not say starts anew."""
        found = cls()
        for name in ("batches", "images", "created"):
            value = notes.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                setattr(found, name, type(getattr(found, name))(value))
        return found


class Stream:
    """An adapter under a name; one thread at a time."""

    def __init__(self, name: str, adapter: Adapter) -> None:
        self.name, self.adapter = name, adapter
        self.early: Early | None = None  # who is told an answer before it is learned from
        self.counts = Counts.of(adapter.notes)
        self._seen, self._told = self._tallies(adapter.method.facts()), 0
        self._nbytes = 0

    def answer(self, images: Tensor, *, learn: bool = True) -> Answer:
        """Return the logits of a batch, as the adapter gives them; learn from it if asked to."""
        if learn:
            logits = self.adapter.step(images, None if self.early is None else self._tell)
            self.counts.batches += 1
            self.counts.images += len(images)
        else:
            logits = self.adapter.predict(images)
        logits = _on_host(logits)
        return Answer(logits, self.facts(logits))

    def _tell(self, logits: Tensor, estimate: float | None) -> None:
        assert self.early is not None
        self.early(Answer(_on_host(logits), Facts(self.counts.batches + 1, estimate=estimate)))

    def reset(self) -> Facts:
        """Begin anew, from the source model and an empty memory."""
        self.adapter.reset()
        self.counts = Counts()
        self._seen, self._told = self._tallies(self.adapter.method.facts()), 0
        return self.facts()

    def snapshot(self) -> Snapshot:
        """Return copies of everything, to be written while the stream goes on."""
        self.adapter.notes = {"stream": self.name, **vars(self.counts)}
        return Snapshot(self.adapter.state_dict(), self.adapter.recipe())

    def facts(self, logits: Tensor | None = None) -> Facts:
        """Return what there is to tell, with the news since the last time."""
        method = self.adapter.method.facts()
        now = self._tallies(method)
        gained = {name: value - self._seen.get(name, 0) for name, value in now.items()}
        self._seen = now
        pool, pools = method.get("pool"), method.get("pools")
        return Facts(
            batches=self.counts.batches,
            images=self.counts.images,
            updates=now["updates"],
            skipped=now["skipped"],
            restored=now["restored"],
            estimate=self.adapter.estimate,
            entropy=0.0 if logits is None else float(entropy(logits).mean()),
            pools=pools if isinstance(pools, int) else None,
            pool=int(pool) if isinstance(pool, int) and pool >= 0 else None,
            nbytes=self._weighed(),
            news=tuple((name, more) for name, more in gained.items() if more > 0),
        )

    def pools(self) -> list[dict[str, Any]]:
        """Return what the adapter says about each of its pools, ready for JSON."""
        return [vars(pool) for pool in self.adapter.pools]

    def pool_images(self, most: int = 25) -> dict[str, Tensor]:
        """Return the newest images uint8 ``(N, C, H, W)`` of each bank that holds any, by name."""
        found = {}
        for name, bank in self.adapter.state.banks.items():
            if len(bank):
                stored = bank.retrieve(None)  # everything: draws no random number
                newest = stored.ages.argsort(stable=True)[:most]
                images = stored.images[newest.to(stored.images.device)]
                found[name] = (images.float().cpu() * 255).round().clamp(0, 255).to(torch.uint8)
        return found

    def _weighed(self) -> int:
        """Return the bytes of memory it takes, counted anew every few times."""
        if self._told % _WEIGHED == 0:
            self._nbytes = self.adapter.nbytes + _OVERHEAD
        self._told += 1
        return self._nbytes

    def _tallies(self, method: Mapping[str, object]) -> dict[str, int]:
        """Return what only grows, and whose growth is news: updates, undone ones, pools."""
        counts = self.adapter.counts
        found = {name: counts[name] for name in ("updates", "skipped", "restored")}
        for name in _POOL_EVENTS:
            value = method.get(name)
            if isinstance(value, int):
                found[f"pool-{name}"] = value
        return found


def _on_host(logits: Tensor) -> Tensor:
    return logits.detach().to("cpu", torch.float32)
