"""The rules against hand-worked values and against what takes longer but cannot be wrong."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from multipool.methods.multipool.rules import (
    closest_pair,
    distances,
    effective_samples,
    last_change,
    likely_path,
    projection,
    stretches,
    trust,
    whitener,
)

FLOATS = st.floats(-20, 20)
some = settings(max_examples=40)


def path_cost(costs, path, start, stay):
    """Return minus the log-probability of one path, term by term."""
    move = (1 - stay) / (costs.shape[1] - 1)
    total, before = 0.0, start
    for t, pool in enumerate(path):
        total += costs[t, pool] - np.log(stay if pool == before else move)
        before = pool
    return total


@some
@given(data=st.data(), count=st.integers(1, 5), pools=st.integers(2, 3), stay=st.floats(0.5, 0.99))
def test_the_likely_path_is_the_cheapest_of_all(data, count, pools, stay):
    costs = data.draw(arrays(np.float64, (count, pools), elements=FLOATS))
    start = data.draw(st.integers(0, pools - 1))
    every = itertools.product(range(pools), repeat=count)
    cheapest = min(path_cost(costs, path, start, stay) for path in every)
    found = likely_path(costs.copy(), start, stay)
    assert found.shape == (count,)
    assert path_cost(costs, found, start, stay) == pytest.approx(cheapest, abs=1e-9)


@pytest.mark.parametrize("favour", [0.0, 1e-12, 0.3, 2.0])
def test_a_path_that_stays_is_found_as_any_other(favour):
    rng = np.random.default_rng(0)
    for _ in range(200):
        costs = 3 * rng.random((int(rng.integers(1, 40)), int(rng.integers(2, 6))))
        start, stay = int(rng.integers(costs.shape[1])), float(rng.uniform(0.5, 0.995))
        costs[:, start] = np.minimum(costs[:, start], costs.min(axis=1) + 1e-9) - favour
        total = costs[0] - np.log((1 - stay) / (costs.shape[1] - 1))
        total[start] = costs[0, start] - np.log(stay)
        came = []
        for now in costs[1:]:
            kept, best = total - np.log(stay), int(total.argmin())
            moved = total[best] - np.log((1 - stay) / (costs.shape[1] - 1))
            came.append(np.where(kept <= moved, np.arange(len(kept)), best))
            total = np.minimum(kept, moved) + now
        path = [int(total.argmin())]
        for before in reversed(came):
            path.append(int(before[path[-1]]))
        assert likely_path(costs.copy(), start, stay).tolist() == path[::-1]


def test_one_pool_has_every_image_and_a_single_outlier_stays_with_its_neighbours():
    assert likely_path(np.zeros((3, 1)), 0, 0.9).tolist() == [0, 0, 0]
    costs = np.array([[0.0, 9.0], [0.0, 9.0], [1.0, 0.0], [0.0, 9.0]])
    assert likely_path(costs, 0, 0.9).tolist() == [0, 0, 0, 0]
    assert likely_path(costs, 0, 0.5).tolist() == [0, 0, 1, 0]  # no order: each for itself


def test_the_path_leaves_its_costs_as_they_are():
    costs = np.array([[1.0, 2.0], [3.0, 4.0]])
    likely_path(costs, 1, 0.9)
    assert costs.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def correlated(rng, count, width=6):
    return rng.standard_normal((count, width)) @ (rng.standard_normal((width, width)) + np.eye(6))


def test_whitened_points_have_unit_covariance():
    points = correlated(np.random.default_rng(0), 4000)
    covariance = np.cov(points.T)
    white = whitener(covariance, samples=1e9)
    mixed = 0.95 * covariance + 0.05 * np.diag(np.diag(covariance))  # the least it is drawn in
    np.testing.assert_allclose(white.T @ mixed @ white, np.eye(6), atol=1e-4)
    np.testing.assert_allclose(np.cov((points @ white).T), np.eye(6), atol=0.25)


def test_of_few_samples_only_the_scale_of_each_number_is_believed():
    covariance = np.cov(correlated(np.random.default_rng(1), 400).T)
    white = whitener(covariance, samples=0)
    np.testing.assert_allclose(white, np.diag(np.diag(covariance) ** -0.5), rtol=1e-4, atol=1e-6)


def test_a_number_that_never_varies_does_no_harm():
    covariance = np.diag([4.0, 0.0])
    assert np.isfinite(whitener(covariance, samples=100)).all()
    assert np.isfinite(whitener(np.zeros((2, 2)), samples=100)).all()


@some
@given(
    points=arrays(np.float64, (3, 4), elements=FLOATS),
    centres=arrays(np.float64, (2, 4), elements=FLOATS),
)
def test_distances_are_squared_and_per_dimension(points, centres):
    expected = [[np.mean((p - c) ** 2) for c in centres] for p in points]
    np.testing.assert_allclose(distances(points, centres), expected, atol=1e-12)


@some
@given(
    quiet=arrays(np.float64, (8, 3), elements=st.floats(-0.1, 0.1)),
    loud=arrays(np.float64, (5, 3), elements=st.floats(0.9, 1.1)),
)
def test_the_last_change_is_where_the_images_begin_to_lie_elsewhere(quiet, loud):
    gaps = np.concatenate([quiet, loud])
    assert last_change(gaps, least=1) == 5
    assert last_change(gaps, least=7) == 7  # no fewer than asked for


def test_the_closest_pair_is_found_less_what_chance_explains():
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    first, second, gap = closest_pair(centres, np.array([10.0, 10.0, 5.0]))
    assert {first, second} == {0, 2}
    assert gap == pytest.approx(1 / 2 - 1 / 10 - 1 / 5)


@some
@given(centres=arrays(np.float64, (4, 3), elements=FLOATS))
def test_no_other_pair_is_closer(centres):
    weights = np.array([1.0, 2.0, 40.0, 5.0])
    every = [
        np.mean((centres[i] - centres[j]) ** 2) - 1 / weights[i] - 1 / weights[j]
        for i, j in itertools.combinations(range(4), 2)
    ]
    first, second, gap = closest_pair(centres, weights)
    assert first != second
    assert gap == pytest.approx(min(every), abs=1e-9)


@pytest.mark.parametrize(
    ("counts", "likeness", "expected"),
    [
        ([0.0, 0.0], 0.6, 0.0),
        ([10.0, 0.0], 0.0, 10.0),  # nothing alike: as many as there are
        ([10.0, 0.0], 1.0, 1.0),  # all alike: one a class
        ([5.0, 5.0], 1.0, 2.0),
        ([10.0, 0.0], 0.5, 10 / 5.5),
        ([1.0, 1.0, 1.0], 0.6, 3.0),  # one of each is independent
        ([6.0, 2.0], 0.5, 8 / (1 + (8 / 1.6 - 1) / 2)),  # 64 / 40 = 1.6 classes
    ],
)
def test_effective_samples_by_hand(counts, likeness, expected):
    assert effective_samples(np.array(counts), likeness) == pytest.approx(expected)


@some
@given(
    counts=arrays(np.float64, 4, elements=st.integers(0, 50).map(float)),
    likeness=st.floats(0, 1),
)
def test_effective_samples_are_no_more_than_the_samples_and_fewer_if_more_alike(counts, likeness):
    found = effective_samples(counts, likeness)
    assert 0 <= found <= counts.sum() + 1e-9
    assert effective_samples(counts, 1.0) <= found + 1e-9
    assert effective_samples(2 * counts, likeness) >= found - 1e-9


def test_trust_weighs_an_error_of_one_in_n_against_the_shift():
    assert trust(16.0, 1.0, 16.0) == pytest.approx(0.5)
    assert trust(10.0, 0.5, 16.0) == pytest.approx(5 / 21)
    assert trust(0.0, 4.0, 16.0) == 0
    assert trust(10.0, -0.2, 16.0) == trust(10.0, 0.05, 16.0) > 0


@given(n=st.floats(0.1, 1e4), shift=st.floats(0.1, 50), prior=st.floats(0.1, 100))
def test_trust_grows_with_samples_and_with_the_shift_and_shrinks_with_the_prior(n, shift, prior):
    found = trust(n, shift, prior)
    assert 0 < found < 1
    assert trust(2 * n, shift, prior) > found
    assert trust(n, 2 * shift, prior) > found
    assert trust(n, shift, 2 * prior) < found


def test_the_projection_is_orthogonal_and_always_the_same():
    found = projection(40, 7)
    assert found.shape == (40, 7)
    np.testing.assert_allclose(found.T @ found, np.eye(7), atol=1e-12)
    assert np.array_equal(found, projection(40, 7))
    assert np.array_equal(projection(5, 7), np.eye(5))


@given(pools=arrays(np.int64, st.integers(1, 40), elements=st.integers(0, 6)))
def test_stretches_hold_every_image_of_a_pool_and_no_other(pools):
    found = stretches(np.sort(pools))
    assert [pool for pool, _, _ in found] == sorted(set(pools.tolist()))
    for pool, start, stop in found:
        assert (np.sort(pools)[start:stop] == pool).all()
        assert stop - start == (pools == pool).sum()
