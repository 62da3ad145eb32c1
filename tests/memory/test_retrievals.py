import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.memory import RETRIEVALS
from multipool.memory.retrievals import DRAWS, draw, proportional, uniform


@pytest.mark.parametrize("name", RETRIEVALS)
@given(sizes=st.lists(st.integers(1, 64), min_size=1, max_size=6), n=st.integers(0, 200))
def test_shares_are_counts_that_add_up_to_no_more_than_n(view, name, sizes, n):
    shares = RETRIEVALS[name](view(sizes), n)
    if shares is None:  # one flat draw
        return
    assert len(shares) == len(sizes)
    assert all(isinstance(share, int) and share >= 0 for share in shares)
    assert sum(shares) <= n


def test_uniform_gives_all_the_same(view):
    assert uniform(view([1, 64, 3]), 64) == [21, 21, 21]


def test_proportional_is_one_flat_draw(view):
    assert proportional(view([1, 64, 3]), 64) is None


@pytest.mark.parametrize("name", DRAWS)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), n=st.integers(0, 50))
def test_every_draw_takes_each_member_once_at_most(view, name, sizes, n):
    clusters, generator = view(sizes), np.random.default_rng(0)
    order = DRAWS[name](clusters.members, generator)
    assert sorted(order.tolist()) == list(range(sum(sizes)))
    for counts, fill in (([n // len(sizes)] * len(sizes), True), (None, False)):
        rows = draw(clusters, counts, n, fill, DRAWS[name], generator)
        assert len(rows) == len(set(rows.tolist())) == min(n, sum(sizes))


def test_draws_follow_the_generator_as_written(view):
    drawn = draw(view([3, 5]), [2, 2], 6, True, DRAWS["random"], np.random.default_rng(0))
    rng = np.random.default_rng(0)
    expected = [*rng.permutation(3)[:2], *(rng.permutation(5)[:2] + 3)]
    rest = [row for row in range(8) if row not in expected]
    expected += [rest[i] for i in rng.permutation(4)[:2]]
    assert drawn.tolist() == expected


def test_the_newest_come_first_in_each_cluster_and_over_all(view):
    clusters, newest, generator = view([3, 5]), DRAWS["newest"], np.random.default_rng(0)
    ages = clusters.members.ages
    each = draw(clusters, [2, 2], 4, False, newest, generator)
    assert ages[each].tolist() == sorted(ages[:3])[:2] + sorted(ages[3:])[:2]
    filled = draw(clusters, [1, 1], 4, True, newest, generator)
    assert ages[filled[2:]].tolist() == sorted(set(ages.tolist()) - set(ages[filled[:2]]))[:2]
    assert ages[draw(clusters, None, 3, False, newest, generator)].tolist() == [1, 2, 3]
    assert generator.random() == np.random.default_rng(0).random(), "newest draws no number"


def test_a_draw_sees_uncertainty_and_label(view):
    def surest_known(members, generator):
        return np.lexsort((members.uncertainty, members.labels < 0))

    clusters = view([6, 6], seed=4)
    rows = draw(clusters, [2, 2], 4, False, surest_known, np.random.default_rng(0))
    for cluster, (first, second) in enumerate(rows.reshape(2, 2).tolist()):
        own = clusters.of(cluster)
        assert clusters.members.owner[first] == clusters.members.owner[second] == cluster
        assert clusters.members.uncertainty[first] == own.uncertainty[own.labels >= 0].min()
