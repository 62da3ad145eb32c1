"""Rows that many states of a stream share, and a router that is as good as one that copies."""

import numpy as np
import pytest
import torch

from multipool.methods.multipool.events import Event
from multipool.methods.multipool.pools import CALM, RECENT, WINDOW
from multipool.methods.multipool.recent import Recent
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import distances, likely_path, staying

WIDTH = 6


@pytest.mark.parametrize("sizes", [[1] * 300, [3, 64, 1, 200, 2], [7] * 40])
def test_rows_are_the_last_ones(sizes):
    rng = np.random.default_rng(0)
    found = Recent(np.zeros((50, 2)))
    naive = found.rows.copy()
    for size in sizes:
        points = rng.standard_normal((size, 2))
        found, naive = found.followed_by(points), np.concatenate([naive, points])[-50:]
        assert np.array_equal(found.rows, naive)


def test_states_that_went_on_from_one_do_not_see_each_other():
    rng = np.random.default_rng(1)
    states = [(Recent(np.zeros((20, 3))), np.zeros((20, 3)))]
    for _ in range(200):  # a tree of states, each of which goes on any number of times
        found, naive = states[rng.integers(len(states))]
        points = rng.standard_normal((int(rng.integers(1, 9)), 3))
        states.append((found.followed_by(points), np.concatenate([naive, points])[-20:]))
    assert all(np.array_equal(found.rows, naive) for found, naive in states)


class Naive(Router):
    """The router as it was defined first: everything copied, nothing left out."""

    def copy(self):
        twin = Naive(WIDTH, len(self.weights), self._new, self._same, self._how[1])
        twin.load_state_dict(self.state_dict())
        return twin

    def _assign(self, points, white):
        points, alive = points @ white, self.alive
        costs = 0.25 * points.shape[1] * distances(points, self.centres[alive] @ white)
        start = int(np.searchsorted(alive, self.active))
        stay = staying(int(self.numbers[4]), int(self.numbers[0]))
        return alive[likely_path(costs, start, stay)]

    def _last(self, count):
        kept = self.owners[RECENT - count :] >= 0
        return self.recent[RECENT - count :][kept], self.owners[RECENT - count :][kept]

    def _take(self, points, pools, events):
        for pool in np.unique(pools).tolist():
            places = np.flatnonzero(pools == pool)
            mine = points[places]
            weight = min(self.weights[pool], CALM) + len(mine)
            self.centres[pool] += (mine.mean(axis=0) - self.centres[pool]) * len(mine) / weight
            self.weights[pool] = weight
            self.samples[pool] += len(mine)
            self.used[pool] = self.numbers[0] + int(places[-1])
        steps = np.flatnonzero(np.diff(np.concatenate([[self.active], pools])))
        made = {e.pool for e in events if e.kind == "created"}
        events += [Event("recalled", int(pools[i])) for i in steps if int(pools[i]) not in made]
        self.numbers[4] += len(steps)
        self._recent = Recent(np.concatenate([self.recent, points])[-RECENT:])
        self.owners = np.concatenate([self.owners, pools])[-RECENT:]
        self.numbers[0] += len(points)
        self.numbers[1] = pools[-1]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_router_decides_as_one_that_copies_everything(seed):
    rng = np.random.default_rng(seed)
    quick, naive = (kind(WIDTH, 4, 0.1, 0.08, 0.33) for kind in (Router, Naive))
    domains = rng.standard_normal((6, WIDTH)) * 3
    kinds = set()
    for _ in range(60):
        domain = domains[rng.integers(len(domains))]
        size = int(rng.choice([1, 1, 5, WINDOW, 70]))
        for _ in range(1 + 40 // size):
            points = domain + rng.standard_normal((size, WIDTH))
            if rng.random() < 0.3:  # a look that leads nowhere
                quick.copy().sort(points + 1, [])
            found = []
            for router in (quick, naive):
                ahead = router.copy()
                route = ahead.sort(points, ahead.look(), 0.02)
                router.take(ahead)
                found.append(route)
            assert np.array_equal(found[0].pools, found[1].pools)
            assert found[0].events == found[1].events
            kinds |= {event.kind for event in found[0].events}
    one, other = quick.state_dict(), naive.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert {"created", "recalled"} <= kinds
