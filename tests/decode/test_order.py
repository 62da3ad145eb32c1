"""Frequencies and lags against plain loops over the samples."""

import numpy as np
import pytest

from multipool.decode.order import (
    LAGS,
    agreements,
    choose_lag,
    discounted,
    foretold,
    products,
    running_mean,
)


@pytest.fixture
def drawn():
    generator = np.random.default_rng(1)
    return generator.dirichlet(np.ones(4), size=30), generator.dirichlet(np.ones(4), size=LAGS)


@pytest.mark.parametrize("seen", [0, 10, 1000])
def test_the_marginal_is_a_running_mean_over_the_window(drawn, seen):
    emissions, before = drawn
    window, mean = 32, np.array([0.4, 0.3, 0.2, 0.1])
    shares = running_mean(len(emissions), seen, window)
    same = products(emissions, before)
    found = foretold(emissions, same, mean, shares, window)
    for t, row in enumerate(emissions):
        smooth = (32 * mean + 16 * 0.25) / 48
        assert found[t] == pytest.approx(4 * row @ smooth)
        mean = mean + (row - mean) / min(17 + seen + t, window)
    after = shares[-1, 0] * np.array([0.4, 0.3, 0.2, 0.1]) + shares[-1, 1:] @ emissions
    np.testing.assert_allclose(after, mean)


def test_each_lag_is_compared_with_the_sample_so_far_before(drawn):
    emissions, before = drawn
    found = agreements(products(emissions, before), 4)
    row = np.concatenate([before, emissions])
    for t in (0, 3, 29):
        for k in range(1, LAGS + 1):
            same = emissions[t] @ row[LAGS + t - k]
            assert found[t, k - 1] == pytest.approx(4 * (0.8 * same + 0.2 / 4))


def test_a_lag_must_be_far_ahead_of_the_present_one_and_of_no_order():
    agreement = np.zeros(LAGS)
    agreement[2] = 15.0
    assert choose_lag(1, agreement, 0.0) == 1
    agreement[2] = 17.0
    assert choose_lag(1, agreement, 0.0) == 3
    assert choose_lag(1, agreement, 2.0) == 1  # classes as frequent as they are explain it
    agreement[0] = 40.0
    assert choose_lag(3, agreement, 0.0) == 1


def test_a_sum_forgets_sample_by_sample():
    total = np.array([1.0, -2.0])
    terms = np.array([[1.0, 0.0], [0.5, 2.0], [3.0, 1.0]])
    expected = total
    for row in terms:
        expected = expected * (1 - 1 / 10) + row
    np.testing.assert_allclose(discounted(total, terms, 10), expected)
