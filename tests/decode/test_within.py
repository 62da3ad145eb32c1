"""What neighbours have in common beyond what their domain explains."""

import numpy as np
import pytest
import torch

from multipool.decode import Said, SequenceDecoder
from multipool.decode.bias import favoured
from multipool.decode.within import followed, is_within, within_terms


def test_a_sample_follows_the_last_one_of_its_slot():
    generator = np.random.default_rng(1)
    plain, last = generator.random((9, 4)), generator.random((3, 4))
    slots = np.array([0, 2, 2, 0, 1, 0, 2, 1, 0])
    found = followed(plain, slots, last)
    rows = dict(enumerate(last))
    for t, slot in enumerate(slots.tolist()):
        np.testing.assert_array_equal(found[t], rows[slot])
        rows[slot] = plain[t]


def test_terms_are_those_of_loops_over_samples():
    generator = np.random.default_rng(0)
    plain, before = generator.dirichlet(np.ones(4), size=(2, 20))
    domains = generator.integers(3, size=20)
    sums = generator.random((3, 4)) * [[10.0], [200.0], [2000.0]]  # of the first little is known
    found = within_terms(plain, (plain * before).sum(axis=1), Said(sums, domains))
    for t, domain in enumerate(domains):
        mean = sums[domain] / favoured(sums[[domain]])[0]
        far = plain[t] @ mean / mean.sum()
        more, most = plain[t] @ before[t] - far, plain[t] @ plain[t] - far
        expected = [more, more**2, most] if sums[domain].sum() >= 128 else [0, 0, 0]
        np.testing.assert_allclose(found[t], expected, atol=1e-9)


def test_order_within_a_domain_is_much_and_beyond_chance():
    assert is_within(np.array([30.0, 9.0, 100.0]))  # a third of the most there can be
    assert not is_within(np.array([30.0, 9.0, 130.0]))  # less than a quarter
    assert not is_within(np.array([30.0, 100.0, 100.0]))  # three deviations


def decode(logits, domains, told):
    """Decode in batches, telling what was said so far of each domain; return the answers."""
    decoder, answers = SequenceDecoder(logits.shape[1]), []
    sums = np.zeros((int(domains.max()) + 1, logits.shape[1]))
    for piece, rows in zip(logits.split(64), torch.from_numpy(domains).split(64), strict=True):
        said = Said(sums.copy(), rows.numpy()) if told else None
        answer, state = decoder.ahead(piece, said)
        decoder.go_on(state)
        answers.append(answer.argmax(dim=1))
        np.add.at(sums, rows.numpy(), piece.double().softmax(dim=1).numpy())
    return torch.cat(answers), decoder


@pytest.fixture
def long_runs():
    """Return labels ``(4800,)`` of runs of 400 samples, and logits right about 60 % of them."""
    labels = torch.from_numpy(np.repeat(np.random.default_rng(2).permutation(12) % 6, 400))
    logits = torch.randn(len(labels), 6, generator=torch.Generator().manual_seed(3))
    return labels, logits + 1.5 * torch.nn.functional.one_hot(labels, 6)


def test_runs_longer_than_strangers_lie_apart_are_found_where_domains_are_known(long_runs):
    labels, logits = long_runs
    domains = np.zeros(len(labels), dtype=np.int64)
    wrong = {told: (decode(logits, domains, told)[0] != labels).float().mean() for told in (0, 1)}
    assert wrong[1] < 0.15
    assert wrong[1] < wrong[0] - 0.1


def test_a_bias_that_changes_with_the_domain_is_no_order(long_runs):
    labels, logits = long_runs
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(4))
    logits = logits[shuffled]
    domains = np.repeat(np.arange(12), 400)
    for domain in range(12):  # a domain in which one class is favoured
        logits[domains == domain, domain % 6] += 2.0
    answers, decoder = decode(logits, domains, told=True)
    assert not is_within(decoder.state_dict()["within"].numpy())
    assert torch.equal(answers, logits.argmax(dim=1))


def test_cameras_in_domains_of_their_own_are_read_one_by_one(classes_of, logits_of):
    labels = torch.stack([classes_of(800, 6, 0.97, seed) for seed in (5, 6, 7)], dim=1).flatten()
    turns = np.random.default_rng(8).permuted(np.tile([0, 1, 2], (800, 1)), axis=1)
    shown = labels.view(800, 3).gather(1, torch.from_numpy(turns)).flatten()
    logits, domains = logits_of(shown, 6, 1.5, 9), turns.flatten()
    wrong = {told: (decode(logits, domains, told)[0] != shown).float().mean() for told in (0, 1)}
    assert wrong[1] < 0.5 * wrong[0]
    assert "lag 0" in repr(decode(logits, domains, told=True)[1])
