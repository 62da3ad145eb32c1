"""How far pools are trusted in early and late layers, by hand and by what must always hold."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from multipool.methods.multipool.rules import trust
from multipool.methods.multipool.shares import (
    Shares,
    evenness,
    independent,
    lateness,
    shares,
    unevenness,
)

COUNTS = arrays.arrays(np.float64, 10, elements=st.integers(0, 100).map(float))


def test_layers_become_late_between_two_fifths_and_four_fifths_of_the_depth():
    expected = [0, 0, 0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    asked = [0, 0, 0, 0, 0, 0, 0, 0, 1 / 3, 2 / 3, 1]
    torch.testing.assert_close(lateness(11), torch.tensor([expected, asked], dtype=torch.float32))


@pytest.mark.parametrize("layers", [1, 2])
def test_the_first_layer_is_early(layers):
    assert not lateness(layers)[:, 0].any()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([0, 0, 0, 0], 0.0),  # nothing was seen
        ([25, 25, 25, 25], 0.0),
        ([100, 0, 0, 0], 1 - 1.5 / 4 - 0.01),
        ([50, 50, 0, 0], 0.5 - 1.5 / 4 - 0.01),
        ([1, 0, 0, 0], 0.0),  # one image says nothing about the others
    ],
)
def test_unevenness_by_hand(shown, expected):
    assert unevenness(np.array(shown, dtype=np.float64)) == pytest.approx(expected)


@given(COUNTS)
def test_unevenness_does_not_ask_which_class(counts):
    assert 0 <= unevenness(counts) <= 1
    assert unevenness(counts) == pytest.approx(unevenness(counts[::-1]))


def test_images_drawn_from_all_classes_are_not_uneven_however_few():
    draw = np.random.default_rng(0)
    for images in (4, 16, 64, 512):
        found = [
            unevenness(np.bincount(draw.integers(0, 100, images), minlength=100).astype(float))
            for _ in range(50)
        ]
        assert np.mean(found) < 0.01


def test_late_layers_are_trusted_by_one_over_n_and_what_classes_bring():
    samples, shift, uneven, prior = 40.0, 0.5, 0.1, 16.0
    found = shares(Shares(samples, samples), shift, uneven, prior)
    assert found.early == pytest.approx(shift / (shift + prior / samples))
    assert found.late == pytest.approx(shift / (shift + prior * (1 / samples + 16 * uneven)))


@given(st.floats(0, 1000), st.floats(0, 5), st.floats(0, 1))
def test_late_layers_are_never_trusted_more_and_the_same_where_all_classes_are_shown(n, s, u):
    found = shares(Shares(n, n), s, u, 16.0)
    assert 0 <= found.late <= found.early == trust(n, s, 16.0)
    assert shares(Shares(n, n), s, 0.0, 16.0) == (found.early, found.early)


def test_samples_of_one_class_are_less_alike_in_early_layers():
    counts = np.array([40.0, 40.0, 0.0])  # 39 others of the class in each
    assert independent(counts, 0.5) == pytest.approx((80 / (1 + 39 * 0.1), 80 / (1 + 39 * 0.5)))
    assert independent(counts, 0.0) == (80.0, 80.0)


def test_steps_are_shorter_the_fewer_classes_are_shown():
    one, two, all_ = ([64.0] * n + [0.0] * (10 - n) for n in (1, 2, 10))
    assert evenness(np.array(all_)) == 1.0
    assert evenness(np.array(one)) < evenness(np.array(two)) < 0.2
    assert evenness(np.zeros(10)) == 1.0  # nothing was seen


def test_the_mean_weight_lies_between():
    assert Shares(0.8, 0.2).mean(0.0) == 0.8
    assert Shares(0.8, 0.2).mean(1.0) == pytest.approx(0.2)
