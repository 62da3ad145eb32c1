import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.memory import CONSOLIDATIONS, SPAWNS
from multipool.memory.consolidations import (
    adjacent,
    closest,
    keep,
    least_recent,
    no_merge,
    smallest,
)
from multipool.memory.distances import l2


@pytest.fixture(scope="module")
def line(view):
    """Clusters on a line, of one member each where nothing else is said."""
    return lambda points, sizes=None, **rest: view(sizes or [1] * len(points), points, **rest)


@pytest.mark.parametrize("name", sorted(set(CONSOLIDATIONS) - {"none"}))
@given(points=st.lists(st.integers(-50, 50), min_size=2, max_size=8))
def test_every_strategy_names_two_existing_clusters_in_order(line, name, points):
    i, j = CONSOLIDATIONS[name](line(points), l2)
    assert 0 <= i < j < len(points)


def test_adjacent_ignores_a_closer_cluster_that_is_not_a_neighbour(line):
    assert adjacent(line([0, 5, 7, 1]), l2) == (1, 2)


def test_closest_finds_it(line):
    assert closest(line([0, 5, 7, 1]), l2) == (0, 3)


def test_smallest_merges_into_its_nearest(line):
    assert smallest(line([0, 5, 9, 1], sizes=[3, 9, 2, 9]), l2) == (1, 2)


def test_least_recent_merges_into_its_nearest(line):
    assert least_recent(line([0, 5, 9, 1], last_used=[3, 9, 4, 9]), l2) == (0, 3)


def test_ties_go_to_the_lowest_position(line):
    view = line([0, 1, 2, 3])
    assert adjacent(view, l2) == closest(view, l2) == (0, 1)
    assert smallest(view, l2) == least_recent(view, l2) == (0, 1)
    assert smallest(line([0, 1, 2], sizes=[5, 2, 2]), l2) == (0, 1)


def test_none_merges_nothing(line):
    assert no_merge(line([0, 1]), l2) is None


@given(
    doubts=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    capacity=st.integers(1, 20),
    data=st.data(),
)
def test_the_most_certain_stay_and_among_equals_the_newer(doubts, capacity, data):
    serials = np.array(data.draw(st.permutations(range(len(doubts)))))
    stay = keep(np.array(doubts, float), serials, np.zeros(len(doubts), int), capacity, None)
    ranked = sorted(range(len(doubts)), key=lambda i: (doubts[i], -serials[i]))[:capacity]
    assert stay.tolist() == ranked


def test_a_quota_bounds_known_labels_only():
    labels = np.array([1, 1, 1, -1, -1, 2])
    assert keep(np.zeros(6), np.arange(6), labels, 6, 1).tolist() == [5, 4, 3, 2]


def test_gated_spawning_compares_strictly():
    assert SPAWNS["always"](0.0, 1.0)
    assert SPAWNS["gated"](1.1, 1.0)
    assert not SPAWNS["gated"](1.0, 1.0)
