import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.memory import CONSOLIDATIONS
from multipool.memory.consolidations import adjacent, closest, least_recent, no_merge, smallest
from multipool.memory.distances import l2
from multipool.memory.view import ClusterView


def line(points, sizes=None, last_used=None):
    count = len(points)
    zeros = np.zeros(count, dtype=np.int64)
    return ClusterView(
        sizes=zeros if sizes is None else np.array(sizes),
        centroids=np.array(points, dtype=np.float64).reshape(-1, 1),
        created=np.arange(count),
        last_used=zeros if last_used is None else np.array(last_used),
        now=100,
    )


@pytest.mark.parametrize("name", sorted(set(CONSOLIDATIONS) - {"none"}))
@given(points=st.lists(st.integers(-50, 50), min_size=2, max_size=8))
def test_every_strategy_names_two_existing_clusters_in_order(name, points):
    i, j = CONSOLIDATIONS[name](line(points), l2)
    assert 0 <= i < j < len(points)


def test_adjacent_ignores_a_closer_cluster_that_is_not_a_neighbour():
    assert adjacent(line([0, 5, 7, 1]), l2) == (1, 2)


def test_closest_finds_it():
    assert closest(line([0, 5, 7, 1]), l2) == (0, 3)


def test_smallest_merges_into_its_nearest():
    assert smallest(line([0, 5, 9, 1], sizes=[3, 9, 2, 9]), l2) == (1, 2)


def test_least_recent_merges_into_its_nearest():
    assert least_recent(line([0, 5, 9, 1], last_used=[3, 9, 4, 9]), l2) == (0, 3)


def test_ties_go_to_the_lowest_position():
    view = line([0, 1, 2, 3])
    assert adjacent(view, l2) == closest(view, l2) == (0, 1)
    assert smallest(view, l2) == least_recent(view, l2) == (0, 1)
    assert smallest(line([0, 1, 2], sizes=[5, 2, 2]), l2) == (0, 1)


def test_none_merges_nothing():
    assert no_merge(line([0, 1]), l2) is None
