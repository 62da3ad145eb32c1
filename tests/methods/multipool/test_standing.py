"""How far apart domains must lie as the method is set: in random order, in runs, of few classes."""

import numpy as np
import pytest
import torch

from multipool.methods import adapt
from multipool.methods.multipool.config import MultiPoolConfig
from multipool.methods.multipool.router import Router

WIDTH = 24
AS_SET = MultiPoolConfig()
# 200 sure answers: of each of five classes how many, their entropy, their squares.
ALL, ONE = [40.0] * 5 + [0.0, 200.0], [200.0, 0, 0, 0, 0, 0, 200.0]


def router():
    return Router(WIDTH, 8, AS_SET.new, AS_SET.same, AS_SET.mixed)


def images(count, apart=0.0, seed=0):
    """Return points of a domain that lies ``apart`` from the first, squared, per dimension."""
    return np.random.default_rng(seed).standard_normal((count, WIDTH)) + np.sqrt(apart)


def follow(own, points, size=64, runs=0.0):
    """Return the kinds of what happens to the pools."""
    batches = [points[i : i + size] for i in range(0, len(points), size)]
    return [e.kind for b in batches for e in own.sort(b, own.look(runs), runs).events]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1, 16, 64])
def test_one_domain_in_random_order_is_one_pool(seed, size):
    own = router()
    made = follow(own, images(768, seed=seed), size)
    assert own.alive.tolist() == [0]
    assert made.count("created") <= 2  # one more before it is known how images vary


def test_near_domains_are_told_in_random_order_and_not_in_runs():
    found = []
    for runs in (0.0, AS_SET.runs):
        own = router()
        follow(own, images(512))
        found.append(follow(own, images(128, apart=0.08, seed=1), runs=runs))
    assert found == [["created"], []]


@pytest.mark.parametrize(
    ("apart", "runs", "merged"),
    [(0.02, 0.0, True), (0.05, 0.0, False), (0.05, 0.2, True), (0.1, 0.2, False)],
)
def test_pools_are_one_a_quarter_of_the_runs_farther_apart(apart, runs, merged):
    own = router()
    follow(own, np.concatenate([images(96), images(96, apart=4.0)]))
    own._learn_variation()
    own._learn_variation = lambda: None  # the same units at the look
    # In the first whitened direction; 1/n each is what chance brings.
    far = np.sqrt(WIDTH * (apart + (1 / own.weights[:2]).sum()))
    own.centres[1] = own.centres[0] + far * np.linalg.inv(own._whitener())[0]
    assert [e.kind for e in own.look(runs)] == ["merged"] * merged


@pytest.mark.parametrize(
    ("degree", "shown", "expected"),
    [
        (0.0, ALL, 0.0),  # in random order
        (1.0, ALL, 1.0),
        (0.25, ALL, 0.25),
        (0.0, ONE, 1 - 1 / (1 + 16 * 0.8)),
        (0.5, ONE, 1 - 0.5 / (1 + 16 * 0.8)),
        (0.0, [0.0] * 7, 0.0),  # nobody has asked
    ],
)
def test_thresholds_grow_in_runs_and_where_few_classes_are_shown(make_net, degree, shown, expected):
    method = adapt(make_net(), decode="none").method
    assert method.runs() == pytest.approx(AS_SET.runs), "nothing is known before the first image"
    method.router.numbers[1] = 2
    method.accounts.show(2, np.array(shown))
    method.correlation.sums = np.array([10.0, 3.0 * degree])
    assert method.runs() == pytest.approx(AS_SET.runs * expected)


def test_the_router_is_told_at_each_batch(make_net, make_images, monkeypatch):
    adapter, told = adapt(make_net(), decode="none"), []
    for name in ("look", "sort"):

        def heard(own, *given, as_it_is=getattr(Router, name)):
            told.append(given[-1])
            return as_it_is(own, *given)

        monkeypatch.setattr(Router, name, heard)
    expected = []
    for seed in range(3):
        expected += [adapter.method.runs()] * 2
        assert torch.isfinite(adapter(make_images(32, seed=seed))).all()
    assert told == expected
    assert len(set(told)) > 1
