"""What is counted for each pool, on the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.events import Event
from multipool.methods.multipool.records import saved, sound
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import Floats
from multipool.methods.multipool.shares import evenness, unevenness

_NAMES = ("counts", "said", "shown", "gains", "updates", "waiting", "events")
_YOUNGER = ("said", "shown", "gains")  # files of before 0.3 have none
_MEMORY = 512.0  # images that what a pool shows is known from
_HEARD = 4096.0  # and what was said of its images
KINDS = ("created", "recalled", "merged", "split")


@dataclass(frozen=True)
class PoolInfo:
    """What there is to know about a pool."""

    samples: int
    created: int  # index of its first image in the stream
    last_used: int  # of its last one
    active: bool  # whether the last image was its
    share: float  # of the stream
    trust: float  # weight of its own statistics beside the source's, mean of all layers
    bank: str  # name of its bank among the adapter's


def listed(router: Router, trusts: Mapping[int, float]) -> list[PoolInfo]:
    """Return what there is to know about each pool, in the order of their creation."""
    return [
        PoolInfo(
            samples=int(router.samples[pool]),
            created=int(router.created[pool]),
            last_used=int(router.used[pool]),
            active=pool == router.active,
            share=float(router.samples[pool]) / max(1, int(router.numbers[0])),
            trust=trusts[pool],
            bank=f"bank{pool}",
        )
        for pool in sorted(router.alive.tolist(), key=lambda p: int(router.created[p]))
    ]


class Accounts:
    """Class counts, classes shown, updates and images since the last, for ``most`` pools."""

    def __init__(self, most: int, num_classes: int) -> None:
        self.counts = np.zeros((most, num_classes))  # predicted classes
        self.said = np.zeros((most, num_classes))  # probabilities, summed over images
        self.shown = np.zeros((most, num_classes + 2))  # what answers say, summed over images
        # By how much answers are surer with a pool's statistics in early layers, summed likewise.
        self.gains = np.zeros(most)
        self.uneven = np.zeros(most)  # how far it shows few classes, which follows from the sums
        self.updates = np.zeros(most, dtype=np.int64)
        self.waiting = np.zeros(most, dtype=np.int64)  # images since the last update
        self.events = np.zeros(len(KINDS), dtype=np.int64)

    def note(self, event: Event) -> None:
        """Count an event, and let the accounts of its pools follow."""
        self.events[KINDS.index(event.kind)] += 1
        if event.kind == "merged":
            for values in (self.counts, self.said, self.updates, self.waiting):
                values[event.pool] += values[event.other]
            self.show(event.pool, self.shown[event.other], float(self.gains[event.other]))
            self._close(event.other)
        elif event.kind in ("created", "split"):
            self._close(event.pool)
            if event.kind == "split":
                self._close(event.other)

    def add(self, pool: int, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Count images by their predicted class."""
        known = labels[labels >= 0]
        self.counts[pool] += np.bincount(known, minlength=self.counts.shape[1])
        self.waiting[pool] += len(labels)

    def hear(self, pool: int, said: Floats) -> None:
        """Take in what was said of images of a pool, probabilities ``(R, L)``; NaN not."""
        total = self.said[pool] + said.sum(axis=0)
        if np.isfinite(total).all():
            self.said[pool] = total * min(1.0, _HEARD / max(float(total.sum()), 1.0))

    def heard(self, fresh: Collection[int]) -> Floats:
        """Return what was said of the images of each pool ``(P, L)``: of ``fresh`` ones nothing.

        Less of those that show few classes, since those are what the model should say.
        """
        said = self.said * np.array([evenness(few) for few in self.uneven.tolist()])[:, None]
        said[list(fresh)] = 0
        return np.asarray(said)

    def show(self, pool: int, shown: Floats, gain: float = 0.0) -> None:
        """Take in what images of a pool show, ``(L + 2,)``; NaN, of a broken model, not.

        ``gain``: by how much they are answered surer with its statistics in early layers.
        """
        if np.isfinite(shown).all() and np.isfinite(gain):
            self.gains[pool] = (self.gains[pool] + gain) * self._kept(pool, shown)
            self.shown[pool] = self.with_these(pool, shown)
            self.uneven[pool] = unevenness(self.shown[pool])

    def with_these(self, pool: int, shown: Floats) -> Floats:
        """Return what a pool shows, ``(L + 2,)``, if images that show these come to it."""
        return np.asarray((self.shown[pool] + shown) * self._kept(pool, shown))

    def _kept(self, pool: int, shown: Floats) -> float:
        """Return the share of what is known that stays known with what these images show."""
        images = float(self.shown[pool, :-2].sum() + shown[:-2].sum())
        return min(1.0, _MEMORY / max(images, 1.0))

    def state_dict(self) -> dict[str, Tensor]:
        """Return all counts."""
        return saved(self, _NAMES)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over saved counts, or raise ``ValueError`` and stay as it was."""
        asked = {name: torch.zeros(getattr(self, name).shape) for name in _YOUNGER}
        found = sound(self, _NAMES, {**asked, **state}, "pools'")
        for name, values in found.items():
            if name != "gains" and (values < 0).any():
                raise ValueError(f"the pools' state has no sound '{name}': some are below zero")
        vars(self).update(found)
        self.uneven = np.array([unevenness(sums) for sums in self.shown])

    def _close(self, pool: int) -> None:
        self.counts[pool] = self.said[pool] = self.shown[pool] = 0
        self.gains[pool] = self.uneven[pool] = 0
        self.updates[pool] = self.waiting[pool] = 0
