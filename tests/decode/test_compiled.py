"""The compiled chains: bit for bit those of numpy, and nothing unsound gets in."""

from types import ModuleType

import numpy as np
import pytest
import torch

from multipool.decode import SequenceDecoder, chains, compiled, order

needs_compiled = pytest.mark.skipif(
    not compiled.available(), reason="the chains were not compiled, or are switched off"
)


def make(classes, slots, size=11, kinds=4):
    generator = np.random.default_rng(classes + slots)
    before = generator.dirichlet(np.ones(kinds * classes), size=(slots, 3))
    return {
        "emissions": generator.dirichlet(np.full(classes, 0.1), size=(size, 3)),
        "before": before.reshape(slots, 3, kinds, classes),
        "slots": generator.integers(slots, size=size),
        "stay": generator.random(kinds),
        "begins": generator.dirichlet(np.ones(kinds), size=3),
    }


@needs_compiled
@pytest.mark.parametrize("kinds", [1, 4, 7])
@pytest.mark.parametrize("slots", [1, 3, 16])
@pytest.mark.parametrize("classes", [2, 7, 8, 9, 100, 128, 129, 1000])
def test_both_ways_say_the_same_bit_for_bit(classes, slots, kinds, monkeypatch):
    case = make(classes, slots, kinds=kinds)
    back = {name: case[name] for name in ("emissions", "slots", "stay", "begins")}
    back["resting"] = case["begins"] / (1 - case["stay"])
    found = *compiled.predict(**case), compiled.predict_back(**back)
    monkeypatch.setenv("MULTIPOOL_COMPILED", "0")
    expected = *compiled.predict(**case), compiled.predict_back(**back)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@needs_compiled
@pytest.mark.parametrize("size", [1, 3, 64])
@pytest.mark.parametrize("classes", [2, 7, 8, 9, 100, 128, 129, 1000])
def test_powers_are_added_up_bit_for_bit_as_by_numpy(classes, size):
    generator = np.random.default_rng(classes)
    pair = np.exp(-30 * generator.random((2, size, classes)))
    found, expected = np.empty((17, size)), np.empty((17, size))
    chains.add_up(pair.copy(), expected)
    compiled.add_up(pair.copy(), found)
    np.testing.assert_array_equal(found, expected)
    for row, power in ((0, pair[1]), (1, pair[0]), (2, pair[1] ** 2), (3, pair[0] ** 2)):
        np.testing.assert_allclose(found[row], power.sum(axis=1))
    np.testing.assert_allclose(found[16], (pair[1] ** 256).sum(axis=1))


@needs_compiled
@pytest.mark.parametrize(
    ("pair", "found"),
    [
        (np.ones((2, 3, 4), dtype=np.float32), np.ones((5, 3))),
        (np.ones((2, 3, 4)), np.ones((5, 3), dtype=np.int64)),
        (np.ones((3, 3, 4)), np.ones((5, 3))),
        (np.ones((2, 3, 4)), np.ones((4, 3))),
        (np.ones((2, 3, 4)), np.ones((5, 2))),
        (np.ones((2, 3)), np.ones((5, 3))),
        (np.ones((2, 3, 4)), np.ones(5)),
        (np.ones((2, 4, 3)).transpose(0, 2, 1), np.ones((5, 3))),
        (np.ones((2, 3, 4)), None),
        (b"no array", np.ones((5, 3))),
    ],
)
def test_powers_that_are_none_are_refused(pair, found):
    with pytest.raises((ValueError, TypeError, BufferError)):
        compiled._chains.sums(pair, found)


@needs_compiled
def test_sums_must_not_be_written_over_their_powers():
    memory = np.ones(30)
    with pytest.raises(ValueError, match="apart"):
        compiled._chains.sums(memory[:24].reshape(2, 3, 4), memory[15:].reshape(5, 3))


def test_a_binary_of_before_leaves_the_rest_to_numpy(monkeypatch):
    old = ModuleType("_chains")
    old.VERSION = compiled.VERSION - 1
    monkeypatch.setattr(compiled, "_chains", old)
    pair, found = np.full((2, 1, 4), 0.5), np.empty((3, 1))
    compiled.add_up(pair, found)
    assert found[:, 0].tolist() == [2.0, 2.0, 1.0]
    assert compiled.compare(*comparison(3, 4, 100)).terms.shape == (3, 5, 8)


def comparison(size, classes, seen):
    generator = np.random.default_rng(size)
    emissions = generator.dirichlet(np.full(classes, 0.2), size=size)
    past = generator.dirichlet(np.full(classes, 0.2), size=order.PAST)
    shares = order.running_mean(size, seen, 64)
    marginal = generator.dirichlet(np.ones(classes))
    return emissions, order.products(emissions, past), marginal, shares, seen, 64


@needs_compiled
@pytest.mark.parametrize("seen", [0, 5, 20, 24, 47, 48, 5000])
@pytest.mark.parametrize("size", [1, 2, 7, 64, 300])
def test_neighbours_are_compared_bit_for_bit_as_by_numpy(size, seen):
    case = comparison(size, 11, seen)
    found, expected = compiled.compare(*case), order.compare(*case)
    for name in ("match", "agreements", "terms"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@needs_compiled
@pytest.mark.parametrize(
    ("position", "change"),
    [
        (0, lambda old: old[:, 1:].copy()),
        (0, lambda old: old.astype(np.float32)),
        (0, lambda old: np.asfortranarray(old)),
        (1, lambda old: old[1:]),
        (2, lambda old: old[:-2]),
        (2, lambda old: old[:, 1:].copy()),
        (3, lambda old: -1),
        (3, lambda old: 2**40),
        (4, lambda old: 0),
        (4, lambda old: 49),
        (5, lambda old: 0),
        (6, lambda old: -1),
        (6, lambda old: 49),
        (10, lambda old: old[1:]),
        (10, lambda old: np.frombuffer(old.tobytes())),
        (11, lambda old: np.zeros((9, 49))),
        (11, lambda old: np.zeros((9, 0))),
        (12, lambda old: old[:, 1:].copy()),
        (12, lambda old: np.zeros((9, 5, 9))),
        (12, lambda old: None),
    ],
)
def test_comparisons_that_do_not_fit_are_refused(position, change):
    emissions, same, marginal, shares, *_ = comparison(9, 5, 100)
    filled = np.zeros(9), np.zeros((9, 8)), np.zeros((9, 5, 8))
    arguments = [same, emissions @ marginal, shares, 48, 32, 8, 0, 1.0, 0.0, 1.0, *filled]
    compiled._chains.compare(*arguments)
    arguments[position] = change(arguments[position])
    with pytest.raises((ValueError, TypeError, BufferError, OverflowError)):
        compiled._chains.compare(*arguments)


@needs_compiled
def test_comparisons_must_not_be_written_over_each_other():
    emissions, same, marginal, shares, *_ = comparison(9, 5, 100)
    memory = np.zeros(9 * 40)
    filled = memory[:9], memory[8 : 8 + 72].reshape(9, 8), np.zeros((9, 5, 8))
    with pytest.raises(ValueError, match="fit"):
        compiled._chains.compare(
            same, emissions @ marginal, shares, 48, 32, 8, 0, 1.0, 0.0, 1.0, *filled
        )


def in_batches(logits):
    decoder = SequenceDecoder(logits.shape[1])
    return torch.cat([decoder(piece) for piece in logits.split(50)])


@needs_compiled
def test_a_decoder_answers_alike_without_the_compiled_chains(classes_of, logits_of, monkeypatch):
    logits = logits_of(classes_of(300, 10, 0.95, 1), 10, 2.5, 2)
    with_them = in_batches(logits)
    monkeypatch.setenv("MULTIPOOL_COMPILED", "0")
    assert not compiled.available()
    assert torch.equal(with_them, in_batches(logits))


def test_chains_of_another_version_are_not_used(monkeypatch):
    old = ModuleType("_chains")
    old.VERSION = compiled.VERSION - 1
    monkeypatch.setattr(compiled, "_chains", old)
    assert not compiled.available()
    assert compiled.predict(**make(5, 1))[0].shape == (11, 3, 4, 5)


@needs_compiled
@pytest.mark.parametrize(
    ("position", "change"),
    [
        (0, lambda old: old.astype(np.float32)),
        (0, lambda old: old[:0]),
        (0, lambda old: old[0]),
        (0, lambda old: np.asfortranarray(old)),
        (1, lambda old: old[1:]),
        (1, lambda old: old[:, 1:].copy()),
        (1, lambda old: old[:, :, 1:].copy()),
        (1, lambda old: old[..., 1:].copy()),
        (1, lambda old: np.zeros((65, 3, 4, 6))),
        (2, lambda old: old[1:]),
        (2, lambda old: old.astype(np.float64)),
        (2, lambda old: old + 2),
        (2, lambda old: old - 2),
        (3, lambda old: old[1:]),
        (3, lambda old: np.zeros(8)),
        (4, lambda old: old[1:]),
        (4, lambda old: old[:, 1:].copy()),
        (6, lambda old: old[1:]),
        (6, lambda old: np.frombuffer(old.tobytes()).reshape(old.shape)),
        (7, lambda old: old[:, 1:].copy()),
        (7, lambda old: old[:, :, 1:].copy()),
        (7, lambda old: None),
    ],
)
def test_unsound_arguments_are_refused(position, change):
    case = make(6, 2)
    arguments = [*case.values(), False, np.zeros((11, 3, 4, 6)), np.zeros((11, 3, 4))]
    compiled._chains.predict(*arguments)
    arguments[position] = change(arguments[position])
    with pytest.raises((ValueError, TypeError, BufferError)):
        compiled._chains.predict(*arguments)


@needs_compiled
def test_an_array_to_be_written_must_not_be_shared():
    case = make(4, 12, size=12)  # as many samples as come before
    before = case["before"].copy()
    with pytest.raises(ValueError, match="shares"):
        compiled._chains.predict(*case.values(), False, case["before"], np.zeros((12, 3, 4)))
    np.testing.assert_array_equal(case["before"], before)
