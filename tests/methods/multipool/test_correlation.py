"""How correlated a stream is, told from predictions that may be wrong."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.methods.multipool.correlation import Correlation

L = 10


def predictions(labels, rng, wrong=0.0, sure=6.0):
    """Return probabilities ``(B, L)`` for the labels, a share of them for another class."""
    told = np.where(rng.random(len(labels)) < wrong, rng.integers(0, L, len(labels)), labels)
    logits = rng.standard_normal((len(labels), L))
    logits[np.arange(len(labels)), told] += sure
    return torch.from_numpy(logits).softmax(dim=1).numpy()


def runs(length, count, rng):
    return np.repeat(rng.integers(0, L, count), length)


def degree(labels, rng, batch=64, **how):
    found = Correlation(2, L)
    said = predictions(labels, rng, **how)
    for i in range(0, len(said), batch):
        part = said[i : i + batch]
        found.add(part, np.zeros(len(part), dtype=np.int64))
    return found.degree


def test_a_new_stream_is_taken_for_a_correlated_one():
    assert Correlation(2, L).degree == pytest.approx(1.0)
    assert Correlation(2, L).known == 0.0  # a guess


def test_runs_are_known_once_they_were_seen_and_random_order_never_shows_any():
    rng = np.random.default_rng(0)
    for labels, least, most in ((runs(20, 20, rng), 0.9, 1.0), (rng.integers(0, L, 400), 0, 0.3)):
        found = Correlation(2, L)
        found.add(predictions(labels, rng), np.zeros(len(labels), dtype=np.int64))
        assert least <= found.known <= min(most, found.degree)


@pytest.mark.parametrize("wrong", [0.0, 0.5])
def test_random_order_is_told_from_runs_whatever_share_is_wrong(wrong):
    rng = np.random.default_rng(0)
    assert degree(rng.integers(0, L, 640), rng, wrong=wrong) < 0.15
    assert degree(runs(20, 32, rng), rng, wrong=wrong) > 0.5


def test_a_model_of_one_answer_leaves_what_was_known():
    rng = np.random.default_rng(1)
    found = Correlation(2, L)
    found.add(predictions(rng.integers(0, L, 512), rng), np.zeros(512, dtype=np.int64))
    before = found.degree
    assert before < 0.15
    same = predictions(np.full(256, 3), rng, sure=14.0)
    found.add(same, np.ones(256, dtype=np.int64))  # a domain it knows nothing of
    assert found.degree == pytest.approx(before, abs=0.1)


def test_the_sums_by_hand():
    found = Correlation(1, 2)
    found.sums = np.array([1.0, 0.5])
    found.add(np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2, dtype=np.int64))
    kept = (1 - 1 / 1000.0) ** 2
    # The mean is (1/2, 1/2): d = (1/2, -1/2), (-1/2, 1/2); nothing came before the first.
    np.testing.assert_allclose(found.sums, [kept + 1.0, 0.5 * kept - 0.5])


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 127), max_size=4, unique=True), seed=st.integers(0, 99))
def test_a_second_pool_and_a_saved_state_change_nothing(cuts, seed):
    rng = np.random.default_rng(seed)
    said, pools = rng.dirichlet(np.ones(L), 128), rng.integers(0, 2, 128)
    one, other = Correlation(2, L), Correlation(2, L)
    for part in np.split(np.arange(128), sorted(cuts)):
        one.add(said[part], pools[part])
        other.add(said[part], pools[part])
        again = Correlation(2, L)
        again.load_state_dict(other.state_dict())
        other = again
    assert np.array_equal(one.sums, other.sums)
    assert one.degree == other.degree


@pytest.mark.parametrize("name", ["means", "weights", "last", "owner", "sums"])
def test_an_unsound_state_is_refused_and_changes_nothing(name):
    found = Correlation(2, L)
    found.add(np.full((3, L), 0.1), np.zeros(3, dtype=np.int64))
    before = found.state_dict()
    for bad in (torch.zeros(1, 1, 1), torch.full_like(before[name].double(), -7.0)):
        if name in ("means", "last") and bad.shape == before[name].shape:
            continue  # any number will do there
        with pytest.raises(ValueError, match="correlation's state"):
            found.load_state_dict({**before, name: bad})
    assert all(torch.equal(found.state_dict()[k], v) for k, v in before.items())


def test_a_forgotten_pool_begins_anew():
    found = Correlation(2, L)
    found.add(np.eye(L)[[3, 3]], np.zeros(2, dtype=np.int64))
    found.forget(0)
    assert not found.means[0].any()
    assert found.weights[0] == 0
    assert found.owner[0] == -1


@pytest.mark.parametrize("seed", range(3))
def test_one_image_is_taken_as_a_batch_of_one(seed):
    rng = np.random.default_rng(seed)
    one, other = Correlation(3, 7), Correlation(3, 7)
    for t in range(200):
        prediction = rng.dirichlet(np.full(7, 0.3))[None]
        pools = np.array([int(rng.integers(3))])
        if t % 50 == 49:
            for both in (one, other):
                both.forget(int(pools[0]))
        one.add(prediction, pools)
        weights = min(other.weights[pools[0]], 1000.0) + 1
        means = other.means.copy()
        means[pools[0]] += (prediction[0] - means[pools[0]]) * 1 / weights
        rows, owners = np.vstack([other.last, prediction]), np.append(other.owner, pools)
        gaps = np.where((owners >= 0)[:, None], rows - means[owners], 0.0)
        found = np.array([(gaps[1:] * gaps[1:]).sum(), (gaps[:-1] * gaps[1:]).sum()])
        other.sums = other.sums * (1 - 1 / 1000.0) + found
        other.means, other.weights[pools[0]] = means, weights
        other.last, other.owner = rows[-1], owners[-1:]
        saved, expected = one.state_dict(), other.state_dict()
        assert all(torch.equal(saved[name], expected[name]) for name in expected)


@pytest.mark.parametrize("most", [1, 3])
def test_a_batch_of_one_pool_is_taken_as_the_rule_says(most):
    rng = np.random.default_rng(most)
    found, said = Correlation(3, 7), []
    for t in range(12):
        prediction, pools = rng.dirichlet(np.full(7, 0.3), 9), rng.integers(0, most, 9)
        if t == 6:
            found.forget(0)
        means, weights = found.means.copy(), np.minimum(found.weights, 1000.0)
        for pool in np.unique(pools):
            mine = prediction[pools == pool]
            weights[pool] += len(mine)
            means[pool] += (mine.mean(axis=0) - means[pool]) * len(mine) / weights[pool]
        rows, owners = np.vstack([found.last, prediction]), np.append(found.owner, pools)
        gaps = np.where((owners >= 0)[:, None], rows - means[owners], 0.0)
        sums = np.array([(gaps[1:] * gaps[1:]).sum(), (gaps[:-1] * gaps[1:]).sum()])
        expected = found.sums * (1 - 1 / 1000.0) ** 9 + sums
        found.add(prediction, pools)
        np.testing.assert_array_equal(found.sums, expected)
        np.testing.assert_array_equal(found.means, means)
        said.append(found.owner[0])
    assert set(said) <= set(range(most))
