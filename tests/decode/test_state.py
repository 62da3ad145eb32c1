"""What follows from a decoder's state: the lag, the belief, and what chains go on from."""

import numpy as np
import pytest
import torch

from multipool.decode import Said, SequenceDecoder, State
from multipool.decode.belief import HEATS, Belief, believed
from multipool.decode.order import LAGS, LINKED
from multipool.decode.runs import STAYS, begin_shares, resting_shares
from multipool.decode.state import DOMAINS, places

SHOWN_WITHIN = np.array([[30.0, 9.0, 60.0], [30.0, 9.0, 60.0]])


@pytest.fixture
def state():
    """Return a state of six classes whose recent samples can be told from each other."""
    generator = np.random.default_rng(0)
    fresh = State.fresh(6)
    return fresh.changed(
        recent=generator.dirichlet(np.ones(6), size=fresh.recent.shape[:2]),
        last=generator.dirichlet(np.ones(6), size=DOMAINS),
        begun=generator.random(fresh.begun.shape) * 40,
        marginal_evidence=np.array(12.0),
    )


def test_order_that_is_shown_within_domains_alone_links_samples_by_them(state):
    assert state.changed(within=SHOWN_WITHIN).next_lag(0.0, told=True) == LINKED
    both = state.changed(within=SHOWN_WITHIN, order=np.full((5, LAGS), 100.0))
    assert both.next_lag(0.0, told=True) == 1  # neighbours agree as well: as before
    assert state.next_lag(0.0, told=True) == 1
    linked = state.changed(lag=LINKED)
    assert linked.next_lag(0.0, told=True) == LINKED
    assert linked.next_lag(0.0, told=False) == 1


def test_frequencies_are_no_rival_where_order_was_shown_within_domains(state):
    shown = state.changed(order=np.full((5, LAGS), 100.0), marginal_evidence=np.array(60.0))
    evidence = np.full(HEATS, 40.0)
    assert shown.belief(evidence).gate < 0.5
    assert shown.changed(within=SHOWN_WITHIN).belief(evidence).gate > 0.99


@pytest.mark.parametrize("lag", [2, 3, 8])
@pytest.mark.parametrize("seen", [8, 21])
def test_chains_of_another_lag_begin_with_the_last_samples_in_their_slots(state, lag, seen):
    state = state.changed(seen=seen)
    filtered, evidence = state.started(lag)
    resting = resting_shares(begin_shares(state.begun))
    for back in range(1, lag + 1):
        slot = (seen - back) % lag
        expected = state.recent[-back][:, None] * resting[..., None]
        np.testing.assert_array_equal(filtered[slot], expected)
        assert state.changed(lag=lag, seen=seen - back).slots(1, None) == [slot]
    np.testing.assert_array_equal(evidence, 12.0)  # even with what they compete against


def test_linked_chains_begin_with_the_last_sample_of_each_domain(state):
    filtered, evidence = state.started(LINKED)
    resting = resting_shares(begin_shares(state.begun))
    expected = state.last[:, None, None] * resting[..., None]
    np.testing.assert_array_equal(filtered, expected)
    np.testing.assert_array_equal(evidence, 12.0)


def test_the_same_lag_goes_on(state):
    filtered, evidence = state.started(1)
    assert filtered is state.filtered
    assert evidence is state.evidence


def test_more_domains_than_there_are_places_share_them():
    said = Said(np.ones((20, 6)), np.array([0, 15, 16, 19]))
    assert places(said).tolist() == [0, 15, 0, 3]


def test_the_newest_samples_are_remembered(logits_of):
    logits = logits_of(torch.arange(20) % 6, 6, 9.0, 1)  # sure: nothing is sharpened
    decoder = SequenceDecoder(6)
    for piece in logits.split([7, 1, 12]):
        decoder(piece)
    expected = logits[-LAGS:].double().softmax(dim=1)
    np.testing.assert_allclose(decoder.state_dict()["recent"][:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("sizes", [[30], [1] * 30, [13, 1, 16]])
def test_no_more_runs_begin_than_there_are_samples(logits_of, sizes):
    decoder = SequenceDecoder(6)
    for piece in logits_of(torch.arange(30) // 10, 6, 4.0, 2).split(sizes):
        decoder(piece)
    begun = decoder.state_dict()["begun"].numpy()
    lying = (begun / (1 - STAYS)).sum(axis=1)  # all samples lie in runs of some kind
    np.testing.assert_allclose(lying, 30, rtol=0.01)  # but for what was forgotten


def test_what_is_not_believed_of_chains_is_the_answer_of_the_sample_alone():
    joint = np.array([[[0.2, 0.2], [0.1, 0.3]]])  # (B, T, L), halves and quarters
    weights = np.array([0.4, 0.2])
    plain = np.log(np.array([[0.9, 0.1]]))
    found = np.exp(believed(joint, np.array([[0.4, 0.4]]), Belief(0.6, weights), plain))
    np.testing.assert_allclose(found, [[0.4 * 0.5 + 0.2 * 0.25 + 0.4 * 0.9, 0.39]])
