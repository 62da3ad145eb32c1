"""The chains against a literal reading: every path of classes and kinds of runs, one by one."""

from itertools import product

import numpy as np
import pytest

from multipool.decode.chains import from_both_sides, normalised, predict, unknown
from multipool.decode.compiled import predict_back

SIZE, CLASSES, KINDS = 4, 3, 2
STATES = list(product(range(KINDS), range(CLASSES)))


def by_paths(emissions, before, stay, begins, lag):
    """Return posteriors (B, L) and the probability of the whole batch, over all paths."""
    weight = np.zeros((SIZE, CLASSES))

    def chance_of(state, previous):
        kind, y = state
        (old, last), new = previous, begins[kind] / CLASSES
        return stay[old] * ((kind, y) == (old, last)) + (1 - stay[old]) * new

    for path in product(STATES, repeat=SIZE):
        chance = 1.0
        for t, state in enumerate(path):
            if t < lag:
                step = sum(before[t][old] * chance_of(state, old) for old in STATES)
            else:
                step = chance_of(state, path[t - lag])
            chance *= step * emissions[t, state[1]]
        for t, (_, y) in enumerate(path):
            weight[t, y] += chance
    total = weight[0].sum()
    return weight / total, total


def at_rest(stay, begins):
    """Return how many samples lie in runs of each kind, of how many begin."""
    lasting = begins / (1 - stay)
    return lasting / lasting.sum()


@pytest.fixture
def drawn():
    generator = np.random.default_rng(0)
    return (
        generator.dirichlet(np.ones(CLASSES), size=SIZE),
        generator.dirichlet(np.ones(KINDS * CLASSES), size=SIZE + 1).reshape(-1, KINDS, CLASSES),
    )


@pytest.mark.parametrize("lag", [1, 2, 3, 5])
@pytest.mark.parametrize("begins", [(0.5, 0.5), (0.9, 0.1)])
def test_forward_and_backward_give_what_all_paths_give(drawn, begins, lag):
    emissions, before = drawn
    stay, begins = np.array([0.1, 0.9]), np.array(begins)
    resting = at_rest(stay, begins)
    expected, total = by_paths(emissions, before[:lag], stay, begins, lag)
    each = emissions[:, None]
    prior, sums = predict(each, before[:lag, None], stay, begins[None], lag)
    np.testing.assert_allclose(sums.sum(axis=2).prod(), total, rtol=1e-12)
    after = predict_back(each, stay, begins[None], resting[None], lag)
    found = normalised(from_both_sides(prior, after, resting[None]) * each)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12)


def test_at_rest_nothing_is_foretold(drawn):
    stay, begins = np.array([0.0, 0.8]), np.array([[0.3, 0.7]])
    resting = at_rest(stay, begins)
    nothing = unknown(resting, 2, CLASSES)
    even = np.full((SIZE, 1, CLASSES), 1 / CLASSES)
    prior, sums = predict(even, nothing, stay, begins, 2)
    np.testing.assert_allclose(prior, np.broadcast_to(nothing[:1], prior.shape))
    np.testing.assert_allclose(sums, np.broadcast_to(resting / CLASSES, sums.shape))


def test_chains_of_temperatures_do_not_touch_each_other(drawn):
    emissions, before = drawn
    stay, begins = np.array([0.2, 0.9]), np.array([[0.3, 0.7], [0.6, 0.4]])
    each = np.stack([emissions, np.sqrt(emissions)], axis=1)
    both = predict(each, np.repeat(before[:2, None], 2, axis=1), stay, begins, 2)
    for t in (0, 1):
        alone = predict(each[:, [t]], before[:2, None], stay, begins[[t]], 2)
        np.testing.assert_array_equal(both[0][:, t], alone[0][:, 0])
        np.testing.assert_array_equal(both[1][:, t], alone[1][:, 0])


def test_what_comes_before_can_be_had_in_two_pieces(drawn):
    emissions, before = drawn
    each, stay, begins = emissions[:, None], np.array([0.3, 0.8]), np.array([[0.5, 0.5]])
    whole = predict(each, before[:2, None], stay, begins, 2)
    first = predict(each[:2], before[:2, None], stay, begins, 2)
    posterior = first[0] * each[:2, :, None]
    posterior /= posterior.sum(axis=(2, 3), keepdims=True)
    second = predict(each[2:], posterior, stay, begins, 2)
    np.testing.assert_allclose(whole[0], np.concatenate([first[0], second[0]]), rtol=1e-12)


def test_the_longer_a_run_was_the_longer_it_will_be():
    stay, begins = np.array([0.0, 0.98]), np.array([[0.5, 0.5]])
    sure = np.full((12, 1, CLASSES), 0.01)
    sure[:, 0, 1] = 0.98
    resting = at_rest(stay, begins)
    prior, _ = predict(sure, unknown(resting, 1, CLASSES), stay, begins, 1)
    expected = prior[:, 0].sum(axis=1)[:, 1]  # the chance that the class is seen again
    assert (np.diff(expected[1:]) > 0).all()
