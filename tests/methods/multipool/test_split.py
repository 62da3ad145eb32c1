"""Two domains in one cloud of points are found, and one domain is left alone."""

import numpy as np
import pytest

from multipool.methods.multipool.split import _quantiles, squash, two_domains

WIDTH, COUNT, LEAST = 20, 480, 0.33


def clouds(rng, gap, share=0.5):
    """Return points of two Gaussians with one covariance, and which are the second's."""
    second = rng.random(COUNT) < share
    direction = rng.standard_normal(WIDTH)
    direction *= gap / np.linalg.norm(direction)
    points = rng.standard_normal((COUNT, WIDTH)) + second[:, None] * direction
    return points @ (np.eye(WIDTH) + 0.3 * rng.standard_normal((WIDTH, WIDTH))), second


def one_domain(rng, kind):
    points = rng.standard_normal((COUNT, WIDTH))
    if kind == "student":
        points /= np.sqrt(rng.chisquare(3, (COUNT, 1)) / 3)
    if kind == "outliers":
        points[rng.choice(COUNT, COUNT // 50, replace=False)] += 12.0
    return points


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.5, 0.25])
def test_two_separate_domains_are_found_and_told_apart(seed, share):
    points, second = clouds(np.random.default_rng(seed), gap=7.0, share=share)
    found = two_domains(points, np.random.default_rng(100 + seed), LEAST)
    assert found is not None
    agreement = np.mean(found == second)
    assert max(agreement, 1 - agreement) > 0.98


@pytest.mark.parametrize("kind", ["gaussian", "student", "outliers"])
@pytest.mark.parametrize("seed", range(3))
def test_one_domain_is_not_split(kind, seed):
    points = one_domain(np.random.default_rng(seed), kind)
    assert two_domains(points, np.random.default_rng(100 + seed), LEAST) is None


def test_a_few_wild_images_seldom_hide_two_domains():
    apart = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        points, second = clouds(rng, gap=9.0)
        wild = rng.choice(COUNT, 5, replace=False)
        points[wild] += 300 * rng.standard_normal((5, WIDTH))
        found = two_domains(points, np.random.default_rng(100 + seed), LEAST)
        if found is not None:
            agreement = np.mean(np.delete(found == second, wild))
            apart += max(agreement, 1 - agreement) > 0.98
    assert apart >= 9  # without the squashing, never


@pytest.mark.parametrize("seed", range(3))
def test_what_only_the_fitted_images_show_is_no_domain(seed):
    points = np.random.default_rng(seed).standard_normal((90, WIDTH))  # few: any fit looks good
    assert two_domains(points, np.random.default_rng(100 + seed), LEAST) is None


def test_the_least_gain_decides():
    points, _ = clouds(np.random.default_rng(0), gap=7.0)
    assert two_domains(points, np.random.default_rng(1), least=5.0) is None


def test_the_same_generator_gives_the_same_answer():
    points, _ = clouds(np.random.default_rng(3), gap=6.0)
    once = two_domains(points, np.random.default_rng(7), LEAST)
    again = two_domains(points, np.random.default_rng(7), LEAST)
    assert once is not None
    assert np.array_equal(once, again)


def test_the_points_stay_as_they_are():
    points, _ = clouds(np.random.default_rng(3), gap=6.0)
    before = points.copy()
    two_domains(points, np.random.default_rng(7), LEAST)
    assert np.array_equal(points, before)


def test_squashed_tails_end_at_the_width_and_the_middle_is_kept():
    column = np.array([-1000.0, -1.0, -0.01, 0.0, 0.01, 1.0, 1000.0])[:, None]
    bent = squash(column)[:, 0]
    assert bent[0] == pytest.approx(-2.5)
    assert bent[-1] == pytest.approx(2.5)
    assert bent[4] == pytest.approx(0.01 / 1.4826, rel=1e-3)  # the median deviation is 1
    assert (np.diff(bent) > 0).all()


@pytest.mark.parametrize("count", [1, 2, 7, 40, 41])
def test_squashing_is_by_the_median_and_the_median_deviation(count):
    points = np.random.default_rng(count).standard_normal((count, 9)) ** 3
    points[:, 0] = np.round(points[:, 0])  # many are equal
    gaps = points - np.median(points, axis=0)
    scale = 1.4826 * np.median(np.abs(gaps), axis=0) + 1e-9
    np.testing.assert_array_equal(squash(points), np.tanh(gaps / scale / 2.5) * 2.5)


def test_quantiles_of_rows_are_numpys():
    rows = np.random.default_rng(0).standard_normal((3, 41))
    shares = np.array([0.15, 0.5, 1.0])
    expected = [np.quantile(row, share) for row, share in zip(rows, shares, strict=True)]
    assert _quantiles(rows, shares) == pytest.approx(expected, rel=1e-12)


def test_points_that_vary_nowhere_in_one_direction_are_no_trouble():
    points, second = clouds(np.random.default_rng(0), gap=7.0)
    points[:, 0] = 1.0
    found = two_domains(points, np.random.default_rng(1), LEAST)
    assert found is not None
    agreement = np.mean(found == second)
    assert max(agreement, 1 - agreement) > 0.98
