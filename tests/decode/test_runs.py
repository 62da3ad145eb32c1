"""Kinds of runs: what is learned of them is what a stream has."""

import numpy as np
import pytest
import torch

from multipool.decode import SequenceDecoder
from multipool.decode.runs import KINDS, STAYS, begin_shares, beginnings, resting_shares


def test_nothing_known_means_few_runs_of_one_sample_and_many_long_ones():
    shares = begin_shares(np.zeros((2, KINDS)))
    np.testing.assert_allclose(shares, [[0.05, 0.15, 0.4, 0.4]] * 2)


def test_shares_are_those_of_the_runs_counted_and_of_sixteen_that_were_not():
    counted = np.array([0.0, 12.0, 0.0, 20.0])
    np.testing.assert_allclose(begin_shares(counted), np.array([0.8, 14.4, 6.4, 26.4]) / 48)


def test_long_runs_hold_more_samples_than_begin_them():
    begins = np.array([0.5, 0.0, 0.0, 0.5])
    resting = resting_shares(begins)
    assert resting[3] / resting[0] == pytest.approx(1 / (1 - STAYS[3]))
    assert resting.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", range(KINDS))
def test_of_samples_at_rest_as_many_begin_runs_as_the_shares_say(kind):
    begins = np.random.default_rng(kind).dirichlet(np.ones(KINDS))
    begun = beginnings(resting_shares(begins))
    np.testing.assert_allclose(begun / begun.sum(), begins)


def runs_of(lengths, classes, seed):
    """Return labels of runs of these lengths, each of any class."""
    generator = np.random.default_rng(seed)
    return np.repeat(generator.integers(classes, size=len(lengths)), lengths)


def learned(lengths, logits_of):
    """Return the shares of kinds that a decoder at temperature 1 has learned."""
    labels = torch.from_numpy(runs_of(lengths, 10, 3))
    decoder = SequenceDecoder(10)
    for piece in logits_of(labels, 10, 6.0, 4).split(64):
        decoder(piece)
    return begin_shares(decoder.state_dict()["begun"].numpy())[0]


def test_short_and_long_runs_are_known_by_their_beginnings(logits_of):
    short = learned(np.tile([1, 2], 800), logits_of)
    both = learned(np.tile([1, 1, 1, 1, 60], 40), logits_of)
    long = learned(np.full(40, 60), logits_of)
    assert short[0] > both[0] > 2 * long[0]
    assert short[3] + 0.2 < both[3] < long[3]
    assert short[:2].sum() > 0.6
    assert long[3] > 0.5
