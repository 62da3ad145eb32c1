"""A model's bias in a domain is what it says on average there, as far as that is known."""

import numpy as np
import pytest
import torch

from multipool.decode import Said, SequenceDecoder
from multipool.decode.belief import TEMPERATURES
from multipool.decode.bias import favoured, without_bias
from multipool.decode.decoder import advance
from multipool.decode.single import advance_one
from multipool.decode.state import State


def test_a_class_is_favoured_as_far_as_many_samples_say_so():
    rows = [
        [0.0, 0, 0, 0],
        [100, 50, 50, 0],
        [300, 100, 0, 0],
        [100, 100, 100, 100],
        [2000, 0, 0, 0],
    ]
    sums = np.array(rows)
    found = favoured(sums)
    np.testing.assert_allclose(found[0], 1)  # nothing is known
    np.testing.assert_allclose(found[1], [1.5, 1, 1, 0.5])  # half of it the belief in even ones
    np.testing.assert_allclose(found[2], [7 / 3, 1, 1 / 3, 1 / 3])
    np.testing.assert_allclose(found[3], 1)
    np.testing.assert_allclose(found[4], [3, 1 / 3, 1 / 3, 1 / 3])  # 3.7 and 0.1 are beyond three


def test_emissions_are_divided_by_what_is_said_at_each_temperature():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((5, 4))
    heats = np.array(TEMPERATURES)[:, None]
    emissions = np.exp(logits[:, None] / heats)
    emissions /= emissions.sum(axis=-1, keepdims=True)
    sums, domains = rng.random((3, 4)) * 500, np.array([2, 2, 0, 2, 0])
    found = without_bias(emissions, Said(sums, domains))
    for t, domain in enumerate(domains):
        said = (sums[domain] * 4 + 200) / (sums[domain].sum() + 200)
        unbiased = logits[t] - np.log(np.clip(said, 1 / 3, 3))  # the logits of p / m
        for k, temperature in enumerate(TEMPERATURES):
            expected = np.exp(unbiased / temperature)
            np.testing.assert_allclose(found[t, k], expected / expected.sum())


def heard(decoder, logits, batch, domains=1):
    """Decode with what was said before each batch; domains take turns, sample by sample."""
    sums, answers = np.zeros((domains, logits.shape[1])), []
    places = np.arange(len(logits)) % domains
    for start in range(0, len(logits), batch):
        piece, rows = logits[start : start + batch], places[start : start + batch]
        answer, state = decoder.ahead(piece, Said(sums.copy(), rows))
        decoder.go_on(state)
        np.add.at(sums, rows, piece.double().softmax(dim=1).numpy())
        answers.append(answer)
    return torch.cat(answers)


@pytest.fixture
def biased(classes_of, logits_of):
    """Return runs of ten classes under a model that favours the first, and their logits."""
    labels = classes_of(3000, 10, 0.97, 3)
    return labels, logits_of(labels, 10, 1.5, 4, bias=2.0)


def wrong(answers, labels):
    return (answers.argmax(dim=1) != torch.as_tensor(labels)).double().mean()


@pytest.mark.parametrize("batch", [1, 50])
def test_runs_under_a_biased_model_are_read_better(biased, batch):
    labels, logits = biased
    plain = SequenceDecoder(10)
    with_bias = torch.cat([plain(piece) for piece in logits.split(batch)])
    found = heard(SequenceDecoder(10), logits, batch)
    assert wrong(found, labels) < wrong(with_bias, labels) - 0.02


def test_random_order_is_answered_as_it_was(classes_of, logits_of):
    logits = logits_of(classes_of(2000, 10, 0.0, 5), 10, 1.5, 6, bias=2.0)
    answers = heard(SequenceDecoder(10), logits, 50)
    torch.testing.assert_close(answers, logits.log_softmax(dim=1))


def test_one_domain_in_several_rows_is_one_domain(biased):
    _, logits = biased
    sums = np.array([[100.0, *[10.0] * 9]])
    one = SequenceDecoder(10).ahead(logits[:600], Said(sums, np.zeros(600, dtype=np.int64)))[0]
    rows = np.arange(600) % 2
    two = SequenceDecoder(10).ahead(logits[:600], Said(sums.repeat(2, axis=0), rows))[0]
    torch.testing.assert_close(one, two)


def test_samples_alone_are_batches_of_one_bit_for_bit(biased):
    state = State.fresh(10)
    said = Said(np.arange(20.0).reshape(2, 10) * 20, np.array([1]))
    for row in biased[1][:200].double().numpy():
        expected, after = advance(state, row[None], 256, said)
        found, state = advance_one(state, row[None], 256, said)
        assert np.array_equal(found, expected)
        assert np.array_equal(state.past, after.past)
        assert np.array_equal(state.filtered, after.filtered)
