"""What neighbours have in common beyond what their domain explains."""

import numpy as np
import pytest
import torch

from multipool.decode import Said, SequenceDecoder
from multipool.decode.bias import favoured
from multipool.decode.order import LAGS
from multipool.decode.within import is_within, within_terms


def test_terms_are_those_of_loops_over_samples_and_lags():
    generator = np.random.default_rng(0)
    plain = generator.dirichlet(np.ones(4), size=20)
    rows = np.concatenate([generator.dirichlet(np.ones(4), size=LAGS), plain])
    domains = generator.integers(3, size=LAGS + 20)
    domains[:3] = -1
    sums = generator.random((3, 4)) * [[10.0], [200.0], [2000.0]]  # of the first little is known
    near = np.array([[rows[LAGS + t] @ rows[LAGS + t - k] for k in range(1, 9)] for t in range(20)])
    own = (plain * plain).sum(axis=1)
    found = within_terms(plain, near, own, domains, Said(sums, domains[LAGS:]))
    for t in range(20):
        domain, any_same = domains[LAGS + t], False
        mean = sums[domain] / favoured(sums[[domain]])[0]
        far = plain[t] @ mean / mean.sum()
        for k in range(1, 9):
            same = domain == domains[LAGS + t - k] and sums[domain].sum() >= 128
            any_same |= same
            expected = near[t, k - 1] - far if same else 0.0
            assert found[t, 0, k - 1] == pytest.approx(expected, abs=1e-6)
        assert found[t, 2, 0] == pytest.approx(own[t] - far if any_same else 0.0, abs=1e-6)


def test_order_within_a_domain_is_much_and_beyond_chance():
    order = np.zeros((5, LAGS))
    order[0, 2], order[1, 2], order[2, 2] = 30.0, 9.0, 100.0  # a third of the most there can be
    assert is_within(order)
    order[2, 2] = 130.0  # less than a quarter
    assert not is_within(order)
    order[1, 2], order[2, 2] = 100.0, 100.0  # three deviations
    assert not is_within(order)


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
