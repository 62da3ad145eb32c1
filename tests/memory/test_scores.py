"""The highest H(x) found by bounds against the highest of all scores computed anew."""

import math
from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.memory import MultiClusterMemory
from multipool.memory.cluster import Cluster, pack
from multipool.memory.distances import l2
from multipool.memory.options import MultiClusterOptions
from multipool.memory.scores import Scores
from multipool.memory.switch import by_numpy

WEIGHTS = st.sampled_from([0.0, 1.0, 3.0])


@pytest.fixture(autouse=True)
def _numpy():
    """The search is part of numpy's decisions; compiled ones compute all scores."""
    with by_numpy():
        yield


def all_scores(members, now, options):
    """H(x) of ``(descriptor, uncertainty, index)`` by the equation, sums in its order."""
    columns = list(zip(*(m[0] for m in members), strict=True))
    centre = [sum(column) / len(members) for column in columns]

    def gap(point):
        sides = [a - b for a, b in zip(point, centre, strict=True)]
        # Not by sum(), which from Python 3.12 on rounds better than one by one.
        return math.sqrt(reduce(add, [side * side for side in sides]))

    return [
        float(np.divide(options.age_weight, 1 + np.exp(np.divide(now - index, -options.capacity))))
        + options.uncertainty_weight * doubt / math.log(options.num_classes)
        + options.distance_weight * gap(d)
        for d, doubt, index in members
    ]


def packed(member, number, options):
    descriptor, doubt, index = member
    term = options.uncertainty_weight * doubt / math.log(options.num_classes)
    real = np.array([*descriptor, doubt, term])[:, None]
    return pack(real, np.array([[number], [index], [0], [-1]]))[:, 0]


@st.composite
def newcomers(draw):
    """Descriptors on a grid that is coarse or fine, with duplicates, and uncertainty with ties."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    count, width = draw(st.integers(2, 150)), draw(st.integers(1, 9))
    steps = draw(st.sampled_from([2**24, 2**24, 4, 1]))
    points = np.round(rng.random((count, width)) * steps) / steps
    doubts = rng.random(count)
    if draw(st.booleans()):
        doubts = np.round(doubts * 2) / 2
    scale = draw(st.sampled_from([1.0, 0.0, -3.0, 1e12]))
    moments = rng.integers(1, draw(st.sampled_from([2, 10, 5000])), count).cumsum()
    return list(zip(points.tolist(), (doubts * scale).tolist(), moments.tolist(), strict=True))


@settings(deadline=None, max_examples=120)
@given(
    stream=newcomers(), capacity=st.integers(1, 70), age=WEIGHTS, doubt=WEIGHTS, distance=WEIGHTS
)
def test_the_highest_by_bounds_is_the_highest_of_all(stream, capacity, age, doubt, distance):
    capacity = min(capacity, len(stream) - 1)
    options = MultiClusterOptions(
        10, capacity, age_weight=age, uncertainty_weight=doubt, distance_weight=distance
    )
    scores, cluster, members = Scores(options, l2), Cluster(len(stream[0][0]), capacity, 0), []
    for number, newcomer in enumerate(stream):
        member = packed(newcomer, number, options)
        if cluster.size < capacity:
            cluster.append(member, number)
            members.append((number, newcomer))
            continue
        found = scores.worst(cluster, newcomer[2])
        expected = all_scores([m for _, m in members], newcomer[2], options)
        oldest = min(  # the older one of equals
            (number, position)
            for position, (number, _) in enumerate(members)
            if expected[position] == max(expected)
        )
        assert found == oldest[1]
        cluster.replace(found, member)
        scores.keep(cluster, found, tuple(newcomer[0]))
        members[found] = (number, newcomer)


@given(base=st.lists(st.integers(0, 2**24), min_size=3, max_size=8), data=st.data())
def test_distances_equal_but_for_rounding_are_told_apart_exactly(base, data):
    # All turns of one vector: as far from their mean, but every sum rounds its own way.
    width = len(base)
    options = MultiClusterOptions(10, width, age_weight=0.0)
    scores, cluster = Scores(options, l2), Cluster(width, width, 0)
    points = [[x / 2**24 for x in base[k:] + base[:k]] for k in range(width)]
    members = [(k, (point, 0.0, k)) for k, point in enumerate(points)]
    for number, member in members:
        cluster.append(packed(member, number, options), number)
    for number in range(width, 5 * width):
        expected = all_scores([member for _, member in members], number, options)
        first = min(members[k][0] for k in range(width) if expected[k] == max(expected))
        assert members[scores.worst(cluster, number)][0] == first
        k = data.draw(st.integers(0, width - 1))
        members[k] = (number, (points[k], 0.0, number))
        cluster.replace(k, packed(members[k][1], number, options))
        scores.keep(cluster, k, tuple(points[k]))


def drift(seed, count, spread=0.05):
    """Images whose colour drifts slowly, so that one cluster's centroid keeps moving."""
    generator = torch.Generator().manual_seed(seed)
    colour = 0.5 + 0.3 * torch.sin(torch.arange(count) / 150).view(-1, 1, 1, 1)
    noise = spread * torch.randn(count, 2, 1, 1, generator=generator)
    return (colour + noise).clamp(0, 1), torch.rand(count, generator=generator).double()


@pytest.mark.parametrize("replacement", ["always", "if_worse"])
@pytest.mark.parametrize("spread", [0.05, 0.0])
def test_a_long_stream_equals_the_definition(naive, replacement, spread):
    memory = MultiClusterMemory(10, 40, 2, 0.9, replacement=replacement, storage="float")
    reference = naive(10, 40, 2, 0.9, replacement=replacement)
    images, doubt = drift(3, 900, spread)
    for start in range(0, 900, 100):
        part = slice(start, start + 100)
        batch = images[part], doubt[part], torch.zeros(100, dtype=torch.int64)
        memory.add(*batch)
        reference.add(*batch)
    assert memory.events == reference.events
    assert memory.events["replaced"] > 100
    found = sorted(900 - memory.retrieve(None).ages)
    assert found == sorted(m["index"] for c in reference.clusters for m in c["members"])


def test_most_searches_look_at_few_members(monkeypatch):
    exact = []
    method = Scores._exact
    monkeypatch.setattr(Scores, "_exact", lambda *given: exact.append(1) or method(*given))
    memory = MultiClusterMemory(10, 64, 1)
    images, doubt = drift(0, 1000)
    memory.add(images, doubt)
    assert memory.events["replaced"] == 936
    assert len(exact) < 936 / 4


def test_equal_members_are_told_apart_by_age_alone():
    memory = MultiClusterMemory(10, 4, 1, age_weight=0.0)
    memory.add(torch.full((11, 1, 2, 2), 0.3))
    assert memory.retrieve(None).ages.tolist() == [4, 3, 2, 1]  # the oldest goes, again and again


def test_a_memory_saved_between_searches_goes_on_identically():
    images, doubt = drift(1, 400)
    whole, first, second = (MultiClusterMemory(10, 32, 3, 0.2) for _ in range(3))
    for start in range(0, 400, 50):
        part = images[start : start + 50], doubt[start : start + 50]
        whole.add(*part)
        first.add(*part)
        second.load_state_dict(first.state_dict())  # without what the search had kept
        first, second = second, first
    for name, value in whole.state_dict().items():
        assert torch.equal(value, first.state_dict()[name]), name


@pytest.mark.filterwarnings("ignore:overflow")
def test_numbers_beyond_reason_are_weighed_exactly(naive):
    options = {"descriptor": "feature", "distance": "l2"}
    memory = MultiClusterMemory(6, 3, 1, 1.0, storage="float", **options)
    reference = naive(6, 3, 1, 1.0, **options)
    images, labels = torch.zeros(9, 1, 1, 1), torch.zeros(9, dtype=torch.int64)
    features = torch.arange(9).view(9, 1).double() % 4 * 1e160  # its square is infinite
    memory.add(images, torch.zeros(9), labels, features)
    reference.add(images, torch.zeros(9), labels, features)
    assert memory.retrieve(None).ages.tolist() == [
        9 - m["index"] for m in reference.clusters[0]["members"]
    ]
