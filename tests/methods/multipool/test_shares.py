"""How far pools are trusted in early and late layers, by hand and by what must always hold."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.methods.multipool.rules import trust
from multipool.methods.multipool.shares import (
    certainty,
    evenness,
    is_surer,
    lateness,
    shares,
    shown,
    unevenness,
)


def test_layers_become_late_between_two_fifths_and_four_fifths_of_the_depth():
    expected = [0, 0, 0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    asked = [0, 0, 0, 0, 0, 0, 0, 0, 1 / 3, 2 / 3, 1]
    torch.testing.assert_close(lateness(11), torch.tensor([expected, asked], dtype=torch.float32))


@pytest.mark.parametrize("layers", [1, 2])
def test_the_first_layer_is_early(layers):
    assert not lateness(layers)[:, 0].any()


def told(labels, classes=10, sure=1.0):
    """Return what images of these labels show, answered with this certainty."""
    rest = (1 - sure) / (classes - 1)
    answers = np.full((len(labels), classes), rest) + (sure - rest) * np.eye(classes)[labels]
    return shown(answers).sum(axis=0)


def literally(answers):
    """Return the unevenness by pairs of different images, and by the information in answers."""
    n, classes = answers.shape
    pairs = [answers[i] @ answers[j] for i in range(n) for j in range(n) if i != j]
    squares = np.mean([q @ q for q in answers])
    margin = 0.5 + 2 * np.sqrt(2 * classes) * squares / n
    told = np.clip(classes * np.mean(pairs) - 1 - margin, 0, 1)
    mean = answers.mean(axis=0)
    information = np.mean([(q * np.log(q / mean)).sum() for q in answers])
    return told * max(0, np.exp(-information) - 1 / classes)


@given(st.integers(2, 20), st.integers(2, 6), st.floats(0, 3), st.integers(0, 2**20))
def test_unevenness_literally(images, classes, favour, seed):
    draw = np.random.default_rng(seed)
    logits = draw.normal(0, 2, (images, classes)) + favour * draw.normal(0, 2, classes)
    answers = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = unevenness(shown(answers).sum(axis=0))
    assert found == pytest.approx(literally(answers), abs=1e-6)
    assert found == pytest.approx(unevenness(shown(answers[:, ::-1]).sum(axis=0)))


def test_one_class_is_told_from_two_and_from_all():
    one, two = (unevenness(told(np.arange(300) % n)) for n in (1, 2))
    assert one == pytest.approx(0.9)
    assert two == pytest.approx(0.4)
    assert unevenness(told(np.arange(300) % 10)) == 0.0


def test_one_class_that_is_answered_by_many_is_told_by_the_doubt_in_each_answer():
    blurred = np.full((300, 100), 0.2 / 80)
    blurred[:, :20] = 0.8 / 20  # every image looks like twenty classes
    each = np.eye(100)[np.arange(300) % 20]  # and here twenty are shown
    found = [unevenness(shown(answers).sum(axis=0)) for answers in (blurred, each)]
    assert found == pytest.approx([0.99, 0.04])


def test_nothing_and_one_image_say_nothing():
    assert unevenness(np.zeros(12)) == unevenness(told([3])) == 0.0


@pytest.mark.parametrize("classes", [10, 100, 1000])
def test_images_drawn_from_all_classes_are_not_uneven_however_few(classes):
    draw = np.random.default_rng(0)
    for images in (16, 64, 512):
        found = [unevenness(told(draw.integers(0, classes, images), classes)) for _ in range(50)]
        assert np.mean(found) < 0.02


def test_late_layers_are_trusted_by_one_over_n_and_what_classes_bring():
    early, late, shift, uneven, prior = 40.0, 20.0, 0.5, 0.1, 16.0
    found = shares((early, late), shift, uneven, prior)
    assert found.early == pytest.approx(shift / (shift + prior / early))
    assert found.late == pytest.approx(shift / (shift + prior * (1 / late + 16 * uneven)))


@given(st.floats(0, 1000), st.floats(0, 5), st.floats(0, 1))
def test_late_layers_are_never_trusted_more_and_the_same_where_all_classes_are_shown(n, s, u):
    found = shares((n, n), s, u, 16.0)
    assert 0 <= found.late <= found.early == trust(n, s, 16.0)
    assert shares((n, n), s, 0.0, 16.0) == (found.early, found.early)


@given(st.floats(0, 1000), st.floats(0, 5), st.floats(0, 1))
def test_where_answers_are_not_surer_all_layers_are_late(n, s, u):
    late = shares((n, n), s, u, 16.0).late
    assert shares((n, n), s, u, 16.0, surer=False) == (late, late)
    assert shares((n, n), s, 0.0, 16.0, surer=False) == shares((n, n), s, 0.0, 16.0)


def test_answers_may_cost_a_fiftieth_of_certainty_each():
    sums = told(np.zeros(100, dtype=int))
    assert is_surer(0.0, sums)
    assert is_surer(-1.99, sums)
    assert not is_surer(-2.01, sums)
    assert is_surer(0.0, np.zeros(12))  # nobody has asked


def test_in_runs_answers_may_cost_nothing():
    sums = told(np.zeros(100, dtype=int))
    assert is_surer(0.0, sums, runs=1.0)
    assert not is_surer(-0.01, sums, runs=1.0)
    assert is_surer(-0.99, sums, runs=0.5)
    assert not is_surer(-1.01, sums, runs=0.5)


def test_certainty_is_the_largest_probability():
    logits = torch.tensor([[0.0, 0.0], [np.log(3.0), 0.0], [-1.0, 9999.0]])
    assert certainty(logits) == pytest.approx([0.5, 0.75, 1.0])


def test_steps_are_shorter_the_fewer_classes_are_shown():
    one, two, all_ = (unevenness(told(np.arange(200) % n)) for n in (1, 2, 10))
    assert evenness(all_) == 1.0
    assert evenness(one) < evenness(two) < 0.2
