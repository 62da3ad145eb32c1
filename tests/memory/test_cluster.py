import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multipool.memory.cluster import keep
from multipool.memory.covariance import Covariance
from multipool.memory.drawing import DRAWS, draw
from multipool.memory.replacements import always, highest, if_worse, timeliness
from multipool.memory.spawns import SPAWNS


@given(
    doubts=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    capacity=st.integers(1, 20),
    data=st.data(),
)
def test_the_most_certain_stay_and_among_equals_the_newer(doubts, capacity, data):
    serial = np.array(data.draw(st.permutations(range(len(doubts)))))
    stay = keep(np.array(doubts, float), serial, np.zeros(len(doubts), int), capacity)
    ranked = sorted(range(len(doubts)), key=lambda i: (doubts[i], -serial[i]))[:capacity]
    assert stay.tolist() == sorted(ranked, key=lambda i: serial[i])


def test_a_quota_bounds_known_labels_only():
    labels = np.array([1, 1, 1, -1, -1, 2])
    assert keep(np.zeros(6), np.arange(6), labels, 6, 1).tolist() == [2, 3, 4, 5]


def test_the_highest_score_is_the_older_of_equals():
    assert highest(np.array([3.0, 3.0, 1.0]), np.array([5, 2, 0])) == 1


def test_replacing_if_worse_is_strict():
    assert always(0.0, 1.0)
    assert if_worse(1.1, 1.0)
    assert not if_worse(1.0, 1.0)


def test_timeliness_is_a_logistic_curve_that_ends_at_its_weight():
    terms = timeliness(np.array([0, 4, 8, 10**9]), 4, 2.0)
    assert terms[0] == 1.0
    assert np.allclose(terms[1:3], [2 / (1 + np.exp(-1.0)), 2 / (1 + np.exp(-2.0))])
    assert terms[-1] == 2.0


def test_gated_spawning_compares_strictly():
    assert SPAWNS["always"](0.0, 1.0)
    assert SPAWNS["gated"](1.1, 1.0)
    assert not SPAWNS["gated"](1.0, 1.0)


def test_covariance_agrees_with_numpy_and_waits_for_2d_samples():
    points = np.random.default_rng(0).random((50, 3))
    covariance = Covariance(3)
    for number, point in enumerate(points):
        if number < 6:
            assert covariance.precision() is None
        covariance.add(point)
    spread = np.cov(points.T, bias=True)
    shrunk = 0.9 * spread + 0.1 * np.trace(spread) / 3 * np.eye(3)
    assert np.allclose(covariance.precision(), np.linalg.inv(shrunk))


def test_covariance_of_equal_points_is_the_identity():
    covariance = Covariance(2)
    for _ in range(1000):
        covariance.add(np.array([0.3, 0.7]))
    assert covariance.precision() is None


def test_draws_follow_the_generator_as_written():
    drawn = draw(np.arange(8), [3, 5], [2, 2], 6, True, DRAWS["random"], np.random.default_rng(0))
    rng = np.random.default_rng(0)
    expected = [*rng.permutation(3)[:2], *(rng.permutation(5)[:2] + 3)]
    rest = [row for row in range(8) if row not in expected]
    expected += [rest[i] for i in rng.permutation(4)[:2]]
    assert drawn.tolist() == expected


def test_the_newest_come_first_in_each_cluster_and_over_all():
    serials = np.array([0, 4, 7, 1, 2, 3, 5, 6])
    newest, generator = DRAWS["newest"], np.random.default_rng(0)
    each = draw(serials, [3, 5], [2, 2], 4, False, newest, generator)
    assert serials[each].tolist() == [7, 4, 6, 5]
    filled = draw(serials, [3, 5], [1, 1], 4, True, newest, generator)
    assert serials[filled].tolist() == [7, 6, 5, 4]
    assert serials[draw(serials, [3, 5], None, 3, False, newest, generator)].tolist() == [7, 6, 5]
    assert generator.random() == np.random.default_rng(0).random(), "newest draws no number"
