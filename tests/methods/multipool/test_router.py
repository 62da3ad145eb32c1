"""The router on streams of Gaussian clouds: what is found, recalled, split, merged and dropped."""

import numpy as np
import pytest
import torch

from multipool.methods.multipool.events import Event, fresh_pools
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.search import Search

WIDTH = 20


def router(most=8, **more):
    return Router(WIDTH, most, **{"new": 0.25, "same": 0.08, "mixed": 0.33, **more})


class World:
    """Domains are places: all vary alike, each about a mean of its own."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shape = np.eye(WIDTH) + self.rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)
        places = self.rng.standard_normal((8, WIDTH))
        self.places = places / np.linalg.norm(places, axis=1, keepdims=True) * np.sqrt(WIDTH)

    def images(self, domain, count, gap=1.0):
        """Return images ``gap`` deviations from the middle, in every dimension of each domain."""
        mean = gap * self.places[domain]
        return (self.rng.standard_normal((count, WIDTH)) + mean) @ self.shape

    def stream(self, *domains, count=192, gap=1.0):
        return np.concatenate([self.images(d, count, gap) for d in domains])


def follow(router, points, size=64):
    """Return the pool of every point, and all events with the index of their batch's first."""
    pools, events = [], []
    for start in range(0, len(points), size):
        route = router.sort(points[start : start + size], router.look())
        pools.append(route.pools)
        events += [(start, event) for event in route.events]
    return np.concatenate(pools), events


def kinds(events):
    return [event.kind for _, event in events]


def state(router):
    return {name: tensor.clone() for name, tensor in router.state_dict().items()}


def same_state(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("seed", range(3))
def test_a_new_domain_gets_a_pool_and_is_recalled_when_it_returns(seed):
    own = router()
    pools, events = follow(own, World(seed).stream(0, 1, 0, 1))
    assert [(e.kind, e.pool) for _, e in events] == [
        ("created", 0), ("created", 1), ("recalled", 0), ("recalled", 1),
    ]  # fmt: skip
    assert np.array_equal(pools, np.repeat([0, 1, 0, 1], 192))
    assert own.alive.tolist() == [0, 1]
    assert own.active == 1
    assert own.samples[:2].tolist() == [384, 384]
    assert own.created[:2].tolist() == [0, 192]
    assert own.used[:2].tolist() == [575, 767]


def test_the_same_domain_for_long_is_one_pool():
    own = router()
    _, events = follow(own, World(1).stream(2, 2, 2, 2, 2, 2, 2))
    assert kinds(events) == ["created"]


def test_a_run_of_one_class_is_no_new_domain():
    world, own = World(2), router()
    everyday = world.images(0, 256)
    shift = np.sqrt(0.15) * world.places[5] @ world.shape  # the most that classes differ by
    points = np.concatenate([everyday, world.images(0, 96) + shift, world.images(0, 96)])
    _, events = follow(own, points)
    assert kinds(events) == ["created"]


def test_a_domain_twice_as_far_as_the_threshold_is_new_and_the_threshold_decides():
    points = World(3).stream(0, 1, gap=0.6)
    _, events = follow(router(), points)
    assert kinds(events).count("created") == 2
    _, events = follow(router(new=3.0), points)
    assert kinds(events) == ["created"]


@pytest.mark.parametrize("size", [1, 4, 16, 64])
@pytest.mark.parametrize("gap", [0.8, 1.5])
def test_batches_of_any_size_find_the_same_pools(size, gap):
    points = World(0).stream(0, 1, 0, 2, 1, count=128, gap=gap)
    own = router()
    pools, events = follow(own, points, size)
    assert kinds(events).count("created") == len(own.alive) == 3
    assert not {"merged", "split"} & set(kinds(events))
    truth = np.repeat([0, 1, 0, 2, 1], 128)
    assert np.mean(pools == truth) > 0.92  # a change takes some images to be seen
    assert own.samples[own.alive].sum() == len(points)


@pytest.mark.parametrize("before", [200, 208, 216, 220])
def test_a_change_in_the_middle_of_a_batch_leaves_the_images_before_it_where_they_are(before):
    world, own = World(1), router()
    points = np.concatenate([world.images(0, before), world.images(1, 256, gap=1.5)])
    pools, events = follow(own, points)
    assert kinds(events) == ["created", "created"]
    assert np.array_equal(pools[:before], np.zeros(before))
    assert np.mean(pools[before:] == 1) > 0.96
    truth = points[before:].mean(axis=0)
    found, other = own.centres[1], points[:before].mean(axis=0)
    assert np.linalg.norm(found - truth) < 0.1 * np.linalg.norm(other - truth)


def test_too_few_images_after_a_change_wait_for_more():
    world, own = World(1), router()
    points = np.concatenate([world.images(0, 252), world.images(1, 128)])
    pools, events = follow(own, points)
    assert [start for start, event in events if event.kind == "created"] == [0, 256]
    assert np.array_equal(pools, np.repeat([0, 1], [256, 124]))


@pytest.mark.parametrize("seed", range(3))
def test_images_that_vary_more_than_those_so_far_are_one_domain(seed):
    world, own = World(seed), router(new=0.1)
    wide = 2 * (world.images(1, 512) - world.images(1, 4096).mean(axis=0))
    # Where classes come in runs their means differ, the more the wider images vary.
    steps = np.repeat(world.rng.standard_normal((16, WIDTH)), 32, axis=0) @ world.shape
    points = np.concatenate([world.images(0, 256), wide + 0.2 * steps + world.images(3, 1, 3.0)])
    _, events = follow(own, points)
    assert kinds(events).count("created") == 2


def test_a_mixed_stream_is_split_into_its_domains():
    world = World(0)
    second = world.rng.random(1024) < 0.5
    one, other = world.images(0, 1024, gap=1.3), world.images(1, 1024, gap=1.3)
    own = router()
    pools, events = follow(own, np.where(second[:, None], one, other))
    assert kinds(events).count("split") == 1
    assert len(own.alive) == 2
    start = next(index for index, event in events if event.kind == "split")
    agreement = np.mean((pools == pools[start])[start:] == (second == second[start])[start:])
    assert agreement > 0.98
    assert own.samples[own.alive].sum() == 1024


@pytest.mark.parametrize(
    ("before", "share", "runs", "kept"),
    [(768, 0.18, 1, True), (256, 0.18, 1, False), (768, 0.18, 0, False), (768, 0.7, 1, False)],
)
def test_in_runs_an_old_pool_that_gives_off_few_images_stays_as_it_is(before, share, runs, kept):
    world, own = World(0), router(new=0.9)  # nothing is far enough to begin a pool by itself
    follow(own, world.images(0, before, gap=1.3))
    other = world.rng.random(512) < share
    clouds = [world.images(domain, 512, gap=1.3) for domain in (1, 0)]
    for batch in np.split(np.where(other[:, None], *clouds), 8):
        was = own.copy()
        events = own.look(runs)
        if events:
            break
        own.sort(batch, events, runs)
    assert [event.kind for event in events] == ["created" if kept else "split"]
    assert own.samples.sum() == was.samples.sum()
    assert own.samples[1] == own.weights[1] == (own.owners == 1).sum() > 0
    assert np.allclose(own.centres[1], own.recent[own.owners == 1].mean(axis=0))
    assert np.array_equal(own.centres[0], was.centres[0]) == kept
    assert (own.weights[0] == was.weights[0]) == kept
    if kept:
        assert own.numbers[2] > 512  # how images vary is not learned anew
        assert own.samples[1] < own.samples[0]


def test_where_there_is_no_room_the_pool_longest_unused_goes():
    own = router(most=3)
    pools, events = follow(own, World(0).stream(0, 1, 2, 0, 3))
    assert [e.pool for _, e in events if e.kind == "created"] == [0, 1, 2, 1]
    assert len(own.alive) == 3
    assert pools[-1] == 1
    assert own.samples[1] == 192  # of the new domain; the old one's are forgotten
    _, again = follow(own, World(0).stream(0))
    assert "created" not in kinds(again)


def test_with_one_pool_a_new_domain_takes_its_place():
    own = router(most=1)
    pools, events = follow(own, World(0).stream(0, 1))
    assert kinds(events) == ["created", "created"]
    assert set(pools.tolist()) == {0}
    assert own.alive.tolist() == [0]


def test_pools_that_have_come_together_are_merged_into_the_older():
    world, own = World(0), router()
    follow(own, world.stream(0, 1))
    middle = (own.centres[0] + own.centres[1]) / 2
    own.centres[0] += 0.9 * (middle - own.centres[0])
    own.centres[1] += 0.9 * (middle - own.centres[1])
    route = own.sort(world.images(0, 8), own.look())
    assert route.events == [Event("merged", 0, 1)]  # the last image's pool is the one kept
    np.testing.assert_allclose(own.centres[0], middle, atol=0.3)
    assert set(route.pools.tolist()) == {0}
    assert own.alive.tolist() == [0]
    assert own.active == 0
    assert own.samples[0] == 192 + 192 + 8
    assert not (own.owners == 1).any()


def test_a_copy_goes_its_own_way_and_can_be_taken_over():
    points = World(1).stream(0, 1, 0)
    own = router()
    follow(own, points[:192])
    before = state(own)
    ahead = own.copy()
    found, _ = follow(ahead, points[192:])
    assert same_state(state(own), before)
    assert not same_state(state(ahead), before)
    own.take(ahead)
    assert same_state(state(own), state(ahead))
    assert np.array_equal(own._whitener(), ahead._whitener())
    reference = router()
    expected, _ = follow(reference, points)
    assert np.array_equal(found, expected[192:])


@pytest.mark.parametrize("size", [1, 48])
def test_saved_and_loaded_it_goes_on_alike(size):
    points = World(2).stream(0, 1, 2, 0, count=96)
    own, other = router(), router()
    follow(own, points[:200], size)
    other.load_state_dict(state(own))
    ours, our_events = follow(own, points[200:], size)
    theirs, their_events = follow(other, points[200:], size)
    assert np.array_equal(ours, theirs)
    assert our_events == their_events
    assert same_state(state(own), state(other))


BAD = {
    "centres are missing": lambda s: s.pop("centres"),
    "of another width": lambda s: s.update(centres=torch.zeros(8, WIDTH + 1)),
    "NaN": lambda s: s["covariance"].fill_(float("nan")),
    "a pool out of reach": lambda s: s["numbers"].__setitem__(1, 8),
    "a pool that is not there": lambda s: s["numbers"].__setitem__(1, 7),
    "an owner out of reach": lambda s: s["owners"].__setitem__(-1, 99),
    "a negative count": lambda s: s["numbers"].__setitem__(0, -5),
    "negative weights": lambda s: s["weights"].__setitem__(0, -5.0),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_state_is_refused_in_a_sentence_and_changes_nothing(name):
    own = router()
    follow(own, World(2).stream(0, 1))
    before, bad = state(own), state(own)
    BAD[name](bad)
    with pytest.raises(ValueError, match="the router's state") as caught:
        own.load_state_dict(bad)
    assert "\n" not in str(caught.value)
    assert same_state(state(own), before)


def test_pools_just_begun_are_those_created_and_both_parts_of_a_split():
    events = [
        Event("created", 1),
        Event("recalled", 2),
        Event("split", 3, 4),
        Event("merged", 5, 6),
    ]
    assert fresh_pools(events) == {1, 3, 4}
    assert fresh_pools([]) == set()


def test_where_classes_come_in_runs_a_new_domain_must_be_farther_off():
    world = World(2)
    known, other = world.images(0, 256, gap=0.0), world.images(1, 64, gap=0.65)
    found = []
    for runs in (0.0, 0.5):
        own = router()
        follow(own, known)
        found.append([e.kind for e in own.sort(other, own.look(), runs).events])
    assert found == [["created"], []]


@pytest.mark.parametrize("gap", [0.5, 1.0, 2.0])
def test_the_shift_of_a_pool_is_its_squared_distance_from_the_source(gap):
    own = router()
    assert own.shift(0) == 1.0, "nothing is known yet"
    follow(own, World(3).images(4, 2048, gap))
    assert own.shift(0) == pytest.approx(gap**2, rel=0.25)
    assert own.shift(1) == 1.0


def test_what_is_searched_ahead_is_what_the_look_would_find(monkeypatch):
    world = World()
    both = np.concatenate([world.images(0, 512), world.images(1, 512)])
    points = both[world.rng.permutation(len(both))]
    early, late, begun, begin = router(new=99.0), router(new=99.0), [], Search.begin
    monkeypatch.setattr(Search, "begin", lambda self: begun.append(begin(self)))
    for batch in np.split(points, 16):
        one, other = (own.sort(batch, own.look()) for own in (early, late))
        assert np.array_equal(one.pools, other.pools)
        early = early.copy()
        early.foresee()
    assert begun
    assert len(late.alive) == 2
    assert np.array_equal(early.centres, late.centres)


def test_a_search_is_of_its_points_alone():
    points = np.zeros((4, 2))
    search = Search(points, seen=4, seed=0, least=0.1)
    assert search.is_of(points.copy(), 4)
    assert not search.is_of(points + 1, 4)
    assert not search.is_of(points, 5)
