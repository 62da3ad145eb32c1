"""The chains against a literal reading: every path of classes, one by one."""

from itertools import product

import numpy as np
import pytest

from multipool.decode.chains import normalised, predict, predict_back

SIZE, CLASSES = 5, 3


def by_paths(emissions, before, stay, lag):
    """Return smoothed posteriors (B, L) and the probability of the whole batch, over all paths."""
    weight = np.zeros((SIZE, CLASSES))
    for path in product(range(CLASSES), repeat=SIZE):
        chance = 1.0
        for t, y in enumerate(path):
            same = before[t, y] if t < lag else float(path[t - lag] == y)
            chance *= (stay * same + (1 - stay) / CLASSES) * emissions[t, y]
        for t, y in enumerate(path):
            weight[t, y] += chance
    total = weight[0].sum()
    return weight / total, total


@pytest.fixture
def drawn():
    generator = np.random.default_rng(0)
    return (
        generator.dirichlet(np.ones(CLASSES), size=SIZE),
        generator.dirichlet(np.ones(CLASSES), size=SIZE + 1),
    )


@pytest.mark.parametrize("lag", [1, 2, 3, 6])
@pytest.mark.parametrize("stay", [0.3, 0.95])
def test_forward_and_backward_give_what_all_paths_give(drawn, stay, lag):
    emissions, before = drawn
    expected, total = by_paths(emissions, before, stay, lag)
    each = emissions[:, None]
    prior, evidence = predict(each, before[:lag, None], np.array([stay]), lag)
    back = predict_back(each, np.array([stay]), lag)
    np.testing.assert_allclose(normalised(prior * each * back)[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(evidence.prod(), total, rtol=1e-12)


def test_chains_of_a_bank_do_not_touch_each_other(drawn):
    emissions, before = drawn
    stay = np.array([0.2, 0.9])
    each = np.stack([emissions, np.sqrt(emissions)], axis=1)
    both = predict(each, np.repeat(before[:2, None], 2, axis=1), stay, 2)
    for g in (0, 1):
        alone = predict(each[:, g : g + 1], before[:2, None], stay[g : g + 1], 2)
        np.testing.assert_array_equal(both[0][:, g], alone[0][:, 0])
        np.testing.assert_array_equal(both[1][:, g], alone[1][:, 0])


def test_what_comes_before_can_be_had_in_two_pieces(drawn):
    emissions, before = drawn
    each, stay = emissions[:, None], np.array([0.8])
    whole = predict(each, before[:2, None], stay, 2)
    first = predict(each[:3], before[:2, None], stay, 2)
    posterior = normalised(first[0] * each[:3])
    second = predict(each[3:], posterior[-2:], stay, 2)
    np.testing.assert_allclose(whole[0], np.concatenate([first[0], second[0]]), rtol=1e-12)
