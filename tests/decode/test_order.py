"""Frequencies and lags against plain loops over the samples."""

import numpy as np
import pytest

from multipool.decode.order import (
    LAGS,
    LINKED,
    LONG,
    PAST,
    choose_lag,
    compare,
    discounted,
    foretold,
    is_shown,
    order_terms,
    products,
    running_mean,
    unlike_strangers,
)


def order_after(order, more, most):
    return discounted(order, order_terms(more, most), LONG)


@pytest.fixture
def drawn():
    generator = np.random.default_rng(1)
    return generator.dirichlet(np.ones(4), size=30), generator.dirichlet(np.ones(4), size=PAST)


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
    shares = running_mean(len(emissions), 100, 32)
    same = products(emissions, before)
    found = compare(emissions, same, np.full(4, 0.25), shares, 100, 32).agreements
    row = np.concatenate([before, emissions])
    for t in (0, 3, 29):
        for k in range(1, LAGS + 1):
            same = emissions[t] @ row[PAST + t - k]
            assert found[t, k - 1] == pytest.approx(4 * (0.8 * same + 0.2 / 4))


def test_a_lag_must_be_far_ahead_of_the_present_one_and_of_no_order():
    agreement = np.zeros(LAGS + 1)
    agreement[2] = 15.0
    assert choose_lag(1, agreement, 0.0) == 1
    agreement[2] = 17.0
    assert choose_lag(1, agreement, 0.0) == 3
    assert choose_lag(1, agreement, 2.0) == 1  # classes as frequent as they are explain it
    agreement[0] = 40.0
    assert choose_lag(3, agreement, 0.0) == 1


def test_a_lag_must_be_ahead_by_half_of_what_it_has_where_all_agree():
    agreement = np.full(LAGS + 1, 100.0)  # a long run: every sample is like its neighbours
    agreement[2] = 190.0
    assert choose_lag(1, agreement, 0.0) == 1
    agreement[2] = 210.0
    assert choose_lag(1, agreement, 0.0) == 3


def test_a_multiple_of_the_right_lag_is_left_again():
    agreement = np.zeros(LAGS + 1)
    agreement[[2, 5]] = 120.0, 100.0  # three cameras take turns; lag 6 was first by luck
    assert choose_lag(6, agreement, 0.0) == 3
    agreement[[2, 5]] = 100.0, 120.0
    assert choose_lag(3, agreement, 0.0) == 3


def test_samples_linked_by_their_domain_are_one_lag_more():
    agreement = np.zeros(LAGS + 1)
    agreement[LAGS] = 40.0
    assert choose_lag(3, agreement, 0.0) == LINKED
    agreement[1] = 90.0  # two cameras that take turns in one domain
    assert choose_lag(LINKED, agreement, 0.0) == 2


def test_a_sum_forgets_sample_by_sample():
    total = np.array([1.0, -2.0])
    terms = np.array([[1.0, 0.0], [0.5, 2.0], [3.0, 1.0]])
    expected = total
    for row in terms:
        expected = expected * (1 - 1 / 10) + row
    np.testing.assert_allclose(discounted(total, terms, 10), expected)


@pytest.mark.parametrize("shape", [(), (3,), (5, LAGS)])
def test_a_sum_that_forgets_is_the_same_bits_however_often_it_was_asked_for(shape):
    generator = np.random.default_rng(2)
    total, terms = generator.random(shape), generator.random((64, *shape))
    powers = (1 - 1 / 256) ** np.arange(63, -1, -1)
    expected = (1 - 1 / 256) ** 64 * total + np.tensordot(powers, terms, axes=1)
    for _ in range(2):
        found = discounted(total, terms, 256)
        assert found.shape == shape
        np.testing.assert_array_equal(found, expected)


def test_the_shares_of_a_long_stream_are_made_once_and_stay_as_they_are():
    early, late = running_mean(7, 31, 32), running_mean(7, 10**6, 32)
    np.testing.assert_array_equal(early, late)  # both know a window and more
    assert running_mean(7, 500, 32) is late
    assert not late.flags.writeable
    assert running_mean(7, 0, 32)[0, 0] == 1.0
    assert (running_mean(7, 0, 32) != late).any()


@pytest.mark.parametrize("seen", [0, 17, 24, 40, 47, 1000])
@pytest.mark.parametrize("size", [1, 30])
def test_neighbours_are_compared_with_the_samples_17_to_48_before(drawn, seen, size):
    emissions, past = drawn[0][:size], drawn[1]
    more, most = unlike_strangers(products(emissions, past), seen)
    row = np.concatenate([past, emissions])
    for t, sample in enumerate(emissions):
        before = range(17, min(48, seen + t) + 1)  # those that there are
        enough = len(before) >= 8
        strangers = np.mean([sample @ row[PAST + t - k] for k in before]) if enough else 0.0
        assert most[t] == pytest.approx(sample @ sample - strangers if enough else 0.0)
        for k in range(1, LAGS + 1):
            near = sample @ row[PAST + t - k]
            assert more[t, k - 1] == pytest.approx(near - strangers if enough else 0.0)


def test_what_was_kept_before_the_first_sample_does_not_count():
    emissions = np.random.default_rng(3).dirichlet(np.ones(4), size=60)
    blank, odd = np.zeros((PAST, 4)), np.full((PAST, 4), 9.0)
    for one, other in zip(
        unlike_strangers(products(emissions, blank), 0),
        unlike_strangers(products(emissions, odd), 0),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
        assert (one[24:] != 0).any()
        assert not one[:24].any()


def test_order_is_shown_by_sums_beyond_chance_that_are_large_enough():
    more, most = np.ones((9, LAGS)), np.full(9, 9.9)  # the same at all lags
    expected = sum((1 - 1 / 4096) ** k for k in range(9))
    order = order_after(np.zeros((5, LAGS)), more, most)
    np.testing.assert_allclose(order[:, 2], [expected, expected, 9.9 * expected, 0, 0])
    assert not is_shown(order)  # 9 / 3
    assert is_shown(order_after(order, more, most))  # 18 / 4.2
    assert not is_shown(order_after(order, more, np.full(9, 10.5)))  # a tenth is not reached
    assert not is_shown(order_after(order, -more, most))


def test_order_is_shown_by_one_lag_above_the_others_however_little_it_is():
    more = np.zeros((9, LAGS))
    more[:, 4] = 1.0
    order = order_after(np.zeros((5, LAGS)), more, np.full(9, 1000.0))
    expected = sum((1 - 1 / 4096) ** k for k in range(9))
    np.testing.assert_allclose(order[3:, 4], [7 / 8 * expected, (7 / 8) ** 2 * expected])
    assert not is_shown(order)
    assert is_shown(order_after(order, more, np.full(9, 1000.0)))


@pytest.mark.parametrize("sharp", [0.5, 4.0])
def test_a_model_that_favours_a_class_shows_no_order(classes_of, logits_of, sharp):
    labels = classes_of(4000, 10, 0.0, 50)
    logits = sharp * logits_of(labels, 10, 1.0, 51, bias=3.0).numpy().astype(float)
    emissions = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    order, past = np.zeros((5, LAGS)), np.full((PAST, 10), 0.1)
    for start in range(0, 4000, 50):
        part = emissions[start : start + 50]
        order = order_after(order, *unlike_strangers(products(part, past), start))
        past = np.concatenate([past, part])[-PAST:]
        assert not is_shown(order)
