"""The chains against a literal reading: every path of classes and kinds of runs, one by one."""

from itertools import product

import numpy as np
import pytest

from multipool.decode.chains import (
    from_both_sides,
    last_in_slots,
    normalised,
    predict,
    unknown,
)
from multipool.decode.compiled import predict_back

SIZE, CLASSES, KINDS = 4, 3, 2
STATES = list(product(range(KINDS), range(CLASSES)))
TURNS = np.arange(SIZE) % 2


def by_paths(emissions, before, slots, stay, begins):
    """Return posteriors (B, L) and the probability of the whole batch, over all paths."""
    weight = np.zeros((SIZE, CLASSES))

    def chance_of(state, previous):
        kind, y = state
        (old, last), new = previous, begins[kind] / CLASSES
        return stay[old] * ((kind, y) == (old, last)) + (1 - stay[old]) * new

    for path in product(STATES, repeat=SIZE):
        chance = 1.0
        last = {}
        for slot, state, row in zip(slots, path, emissions, strict=True):
            if slot in last:
                step = chance_of(state, last[slot])
            else:
                step = sum(before[slot][old] * chance_of(state, old) for old in STATES)
            chance *= step * row[state[1]]
            last[slot] = state
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


@pytest.mark.parametrize("slots", [(0, 0, 0, 0), (0, 1, 0, 1), (2, 0, 0, 2), (3, 1, 0, 2)])
@pytest.mark.parametrize("begins", [(0.5, 0.5), (0.9, 0.1)])
def test_forward_and_backward_give_what_all_paths_give(drawn, begins, slots):
    emissions, before = drawn
    slots = np.array(slots)
    stay, begins = np.array([0.1, 0.9]), np.array(begins)
    resting = at_rest(stay, begins)
    expected, total = by_paths(emissions, before, slots, stay, begins)
    each = emissions[:, None]
    prior, sums = predict(each, before[:, None], slots, stay, begins[None])
    np.testing.assert_allclose(sums.sum(axis=2).prod(), total, rtol=1e-12)
    after = predict_back(each, slots, stay, begins[None], resting[None])
    found = normalised(from_both_sides(prior, after, resting[None]) * each)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12)


def test_at_rest_nothing_is_foretold(drawn):
    stay, begins = np.array([0.0, 0.8]), np.array([[0.3, 0.7]])
    resting = at_rest(stay, begins)
    nothing = unknown(resting, 2, CLASSES)
    even = np.full((SIZE, 1, CLASSES), 1 / CLASSES)
    prior, sums = predict(even, nothing, TURNS, stay, begins)
    np.testing.assert_allclose(prior, np.broadcast_to(nothing[:1], prior.shape))
    np.testing.assert_allclose(sums, np.broadcast_to(resting / CLASSES, sums.shape))


def test_chains_of_temperatures_do_not_touch_each_other(drawn):
    emissions, before = drawn
    stay, begins = np.array([0.2, 0.9]), np.array([[0.3, 0.7], [0.6, 0.4]])
    each = np.stack([emissions, np.sqrt(emissions)], axis=1)
    both = predict(each, np.repeat(before[:2, None], 2, axis=1), TURNS, stay, begins)
    for t in (0, 1):
        alone = predict(each[:, [t]], before[:2, None], TURNS, stay, begins[[t]])
        np.testing.assert_array_equal(both[0][:, t], alone[0][:, 0])
        np.testing.assert_array_equal(both[1][:, t], alone[1][:, 0])


def test_what_comes_before_can_be_had_in_two_pieces(drawn):
    emissions, before = drawn
    each, stay, begins = emissions[:, None], np.array([0.3, 0.8]), np.array([[0.5, 0.5]])
    whole = predict(each, before[:2, None], TURNS, stay, begins)
    first = predict(each[:2], before[:2, None], TURNS[:2], stay, begins)
    posterior = first[0] * each[:2, :, None]
    posterior /= posterior.sum(axis=(2, 3), keepdims=True)
    second = predict(each[2:], posterior, TURNS[2:], stay, begins)
    np.testing.assert_allclose(whole[0], np.concatenate([first[0], second[0]]), rtol=1e-12)


def test_the_longer_a_run_was_the_longer_it_will_be():
    stay, begins = np.array([0.0, 0.98]), np.array([[0.5, 0.5]])
    sure = np.full((12, 1, CLASSES), 0.01)
    sure[:, 0, 1] = 0.98
    resting = at_rest(stay, begins)
    slots = np.zeros(len(sure), dtype=np.int64)
    prior, _ = predict(sure, unknown(resting, 1, CLASSES), slots, stay, begins)
    expected = prior[:, 0].sum(axis=1)[:, 1]  # the chance that the class is seen again
    assert (np.diff(expected[1:]) > 0).all()


def test_the_last_sample_of_each_slot_is_found():
    used, last = last_in_slots(np.array([5, 2, 5, 0, 2, 2]))
    assert used.tolist() == [0, 2, 5]
    assert last.tolist() == [3, 5, 2]
