"""What is known of each pool, and the looks at them: how images vary, pools that merge or split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from torch import Tensor

from multipool.methods.multipool.events import Event
from multipool.methods.multipool.recent import Recent
from multipool.methods.multipool.records import check_pools, saved, sound
from multipool.methods.multipool.rules import Floats, Ints, closest_pair, whitener
from multipool.methods.multipool.search import Search, crowd
from multipool.ops.host import product

WINDOW = 32  # images that are judged together
LEAST = 16  # images before anything can be called new
RECENT = 512  # images kept to look for two domains at once, and to learn how images vary
EVERY = 64  # images between two looks at the pools
CALM = 1000.0  # images over which a pool's centre is averaged
_SELDOM = 4  # looks between two searches for a second domain, which are expensive
_OLD = 2  # times what is recent: a pool that has seen so much is not begun anew in runs,
_FEW = 0.25  # if less than this share of what is recent leaves it
_LONG = 4000.0  # images over which their variation is averaged

_MOVED = ("centres", "weights", "samples", "created", "used", "owners", "numbers")
_STATE = (*_MOVED, "covariance", "recent")  # which are large, and never changed in place


class Pools:
    """The mean description of every domain met, and how images of one domain vary.

    An image is described by a vector of ``width`` numbers. Arguments are those of the router.
    """

    def __init__(
        self, width: int, most: int, new: float, same: float, mixed: float, seed: int = 0
    ) -> None:
        self._new, self._same, self._how = new, same, (seed, mixed)
        self.centres = np.zeros((most, width))
        self.weights = np.zeros(most)  # images in each centre; 0: the place is free
        self.samples = np.zeros(most, dtype=np.int64)
        self.created = np.full(most, -1, dtype=np.int64)  # index of the first image
        self.used = np.full(most, -1, dtype=np.int64)  # index of the last one
        self.covariance = np.zeros((width, width))
        self._recent = Recent(np.zeros((RECENT, width)))
        self.owners = np.full(RECENT, -1, dtype=np.int64)  # pool of each recent image
        # images seen, pool of the last one, images the covariance knows, last look, changes of pool
        self.numbers = np.array([0, -1, 0, 0, 0], dtype=np.int64)
        self._white: Floats | None = None  # follows from the covariance, None: not known yet
        self._ahead: Search | None = None  # under way, for the next look

    @property
    def active(self) -> int:
        """The pool of the last image, -1 before the first."""
        return int(self.numbers[1])

    @property
    def alive(self) -> Ints:
        """The places that hold a pool."""
        return np.flatnonzero(self.weights > 0)

    @property
    def recent(self) -> Floats:
        """The descriptions of the last images, ``(N, D)``, zeros before the first."""
        return self._recent.rows

    def copy(self) -> Self:
        """Return an independent twin in the same state."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        vars(twin).update({name: getattr(self, name).copy() for name in _MOVED})
        return twin

    def take(self, other: Self) -> None:
        """Become what ``other``, a copy that went on, is."""
        vars(self).update(vars(other))

    def shift(self, pool: int) -> float:
        """Return the squared distance per dimension of a pool from the source, 1 if not known."""
        if self.weights[pool] <= 0 or not self._varies():
            return 1.0
        gap = self.centres[pool] @ self._whitener()
        return float(gap @ gap) / len(gap) - 1 / max(1.0, float(self.weights[pool]))

    def nearest(self, pool: int, others: list[int]) -> tuple[int, float]:
        """Return which of ``others`` lies nearest to a pool, and its squared distance, as above.

        -1 and infinity if there are none, or it is not known yet how images vary.
        """
        if not others or not self._varies():
            return -1, np.inf
        gaps = product(self.centres[others] - self.centres[pool], self._whitener())
        squares = np.square(gaps).mean(axis=1)
        place = int(squares.argmin())
        return others[place], float(squares[place]) - 1 / max(1.0, float(self.weights[pool]))

    def look(self, runs: float = 0.0) -> list[Event]:
        """Return what a look at the pools changes, if one is due; asks for no image.

        A quarter of ``runs`` is added to ``same``: a run of one class begins no pool nearer than
        ``new + runs``, and one that began before the runs were noticed goes back.
        """
        events: list[Event] = []
        if self.numbers[0] - self.numbers[3] >= EVERY:
            self.numbers[3] = self.numbers[0]
            self._learn_variation()
            self._merge(events, self._same + runs / 4)
            if self._searches():
                self._split(events, in_runs=runs > self._new)
            if self._varies():
                self._whitener()  # needed next, and here the host waits for the images anyway
        return events

    def foresee(self) -> None:
        """Begin what the next look will take longest for, in another thread."""
        if self.numbers[0] - self.numbers[3] >= EVERY and self._searches():
            _, mine = crowd(self.owners, self.weights, RECENT // 2)
            if len(mine):
                self._ahead = Search(self.recent[mine], int(self.numbers[0]), *self._how)
                self._ahead.begin()

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next decisions depend on."""
        return saved(self, _STATE)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state, or raise ``ValueError`` and stay as it was."""
        found = sound(self, _STATE, state, "router's")
        check_pools(found)
        self._recent = Recent(found.pop("recent"))
        vars(self).update(found)
        self._white = self._ahead = None

    def _create(self, points: Floats, events: list[Event]) -> int:
        free = np.flatnonzero(self.weights == 0)
        pool = int(free[0]) if len(free) else int(self.used.argmin())
        self.owners[self.owners == pool] = -1
        self.centres[pool] = points.mean(axis=0)
        self.weights[pool] = 1e-9  # there, but whatever comes next decides where
        self.samples[pool] = 0
        self.created[pool] = self.used[pool] = self.numbers[0]
        if self.active < 0:
            self.numbers[1] = pool
        events.append(Event("created", pool))
        return pool

    # Looks at the pools -------------------------------------------------------------------------

    def _varies(self) -> bool:
        """Tell whether it is known how images vary."""
        return self._white is not None or bool(self.covariance.any())

    def _whitener(self) -> Floats:
        """Return the whitening matrix, made anew only when the covariance has moved."""
        if self._white is None:
            self._white = whitener(self.covariance, float(self.numbers[2]))
        return self._white

    def _learn_variation(self, start: bool = False) -> None:
        """Learn how images vary about their centres from those that came since the last time.

        The newest wait: at a change they still count for the pool before it.
        """
        lag, count = (0, LEAST) if start else (WINDOW, EVERY)
        stop = RECENT - lag
        owners = self.owners[stop - count : stop]
        kept = owners >= 0
        if not kept.any():
            return
        rows = self.recent[stop - count : stop]
        if kept.all():
            rest = rows - self.centres[owners]
        else:
            rest = rows[kept] - self.centres[owners[kept]]
        known = min(float(self.numbers[2]) + len(rest), _LONG)
        self._white = None
        moved = product(rest.T, rest)  # then in place, which takes half the time
        moved /= len(rest)
        moved -= self.covariance
        moved *= len(rest)
        moved /= known
        moved += self.covariance
        self.covariance = moved
        self.numbers[2] = int(known)

    def _searches(self) -> bool:
        """Tell whether a look now searches for a second domain."""
        return int(self.numbers[0]) // EVERY % _SELDOM == 0

    def _merge(self, events: list[Event], same: float) -> None:
        """Make one pool of the two nearest, if they are nearer than ``same``."""
        alive = self.alive
        if len(alive) < 2 or not self._varies():
            return
        white = self._whitener()
        weights = np.maximum(self.weights[alive], 1.0)
        first, second, gap = closest_pair(self.centres[alive] @ white, weights)
        if gap >= same:
            return
        keep, gone = sorted((int(alive[first]), int(alive[second])), key=lambda p: self.created[p])
        share = self.weights[gone] / (self.weights[keep] + self.weights[gone])
        self.centres[keep] += share * (self.centres[gone] - self.centres[keep])
        self.weights[keep] = min(self.weights[keep] + self.weights[gone], CALM)
        self.samples[keep] += self.samples[gone]
        self.used[keep] = max(self.used[keep], self.used[gone])
        self.weights[gone] = 0
        self.owners[self.owners == gone] = keep
        if self.active == gone:
            self.numbers[1] = keep
        events.append(Event("merged", keep, gone))

    def _split(self, events: list[Event], in_runs: bool) -> None:
        """Make two pools of the one that most recent images are in, if it holds two domains."""
        pool, mine = crowd(self.owners, self.weights, RECENT // 2)
        if not len(mine):
            return
        points, search = self.recent[mine], self._ahead
        if search is None or not search.is_of(points, int(self.numbers[0])):
            search = Search(points, int(self.numbers[0]), *self._how)
        if (second := search.result()) is None:
            return
        fewer = second if second.mean() < 0.5 else ~second
        if in_runs and fewer.mean() < _FEW and self.samples[pool] >= _OLD * len(points):
            self._split_off(pool, mine[fewer], events)
            return
        other = self._create(points[second], [])
        for place, part in ((pool, ~second), (other, second)):
            self.centres[place] = points[part].mean(axis=0)
            self.weights[place] = float(part.sum())
        self.owners[mine[second]] = other
        self.samples[other] = int(second.sum())
        self.samples[pool] -= int(second.sum())
        kept = self.owners >= 0
        rest = self.recent[kept] - self.centres[self.owners[kept]]
        self._white = None
        # What it was held both domains' difference.
        self.covariance = product(rest.T, rest) / len(rest)
        self.numbers[2] = len(rest)
        events.append(Event("split", pool, other))

    def _split_off(self, pool: int, rows: Ints, events: list[Event]) -> None:
        """Begin a pool with a few of another's recent images, ``rows`` ``(R,)`` of them.

        The rest, and what the pool has learned in all the time before, stays as it is: the few may
        be of one class.
        """
        other = self._create(self.recent[rows], events)
        self.weights[other] = self.samples[other] = len(rows)
        self.samples[pool] -= len(rows)
        self.owners[rows] = other
