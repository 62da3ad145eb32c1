"""ROID's loss, weights and prior, by hand and against their definitions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.ops.likelihood import diversity_weights, prior_correction, soft_likelihood_ratio


def logits(count, classes, seed=0, scale=2.0):
    g = torch.Generator().manual_seed(seed)
    return scale * torch.randn(count, classes, generator=g, dtype=torch.float64)


def test_the_loss_of_an_even_chance_is_nothing_and_of_certainty_capped():
    even = torch.zeros(1, 2, dtype=torch.float64)
    assert float(soft_likelihood_ratio(even)) == pytest.approx(-math.log(1 + 1e-5))
    sure = torch.tensor([[100.0, 0.0]], dtype=torch.float64)
    assert float(soft_likelihood_ratio(sure)) == pytest.approx(-0.99 * math.log(99 + 1e-5))


def test_a_sample_beyond_the_cap_gets_no_gradient_a_confident_one_does():
    z = torch.tensor([[12.0, 0.0], [4.0, 0.0]], requires_grad=True)
    slope = torch.autograd.grad(soft_likelihood_ratio(z).sum(), z)[0].abs().amax(1)
    assert slope[0] < 1e-3 < slope[1]


@given(st.integers(2, 12), st.integers(2, 6), st.integers(0, 30))
def test_weights_follow_their_definition(count, classes, seed):
    z, average = logits(count, classes, seed), torch.full((classes,), 1 / classes).double()
    got = diversity_weights(z, average, 1 / 3)
    p = z.softmax(1)
    d = [1 - float(average @ q / (average.norm() * q.norm())) for q in p]
    e = [float((q * q.log()).sum()) for q in p]
    d = [(v - min(d)) / (max(d) - min(d)) for v in d]
    e = [(v - min(e)) / (max(e) - min(e)) for v in e]
    mean = sum(d) / len(d)
    for i in range(count):
        if abs(d[i] - mean) < 1e-9:
            continue  # on the edge rounding decides
        assert float(got[i]) == pytest.approx(math.exp(3 * d[i] * e[i]) if d[i] > mean else 0.0)


@pytest.mark.parametrize("z", [logits(1, 4), logits(1, 4).expand(5, 4), torch.zeros(3, 4)])
def test_a_batch_without_spread_has_no_weight(z):
    average = torch.full((4,), 0.25, dtype=z.dtype)
    assert not diversity_weights(z, average, 1 / 3).any()


def test_the_prior_by_hand():
    z = torch.tensor([[2.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    p = 1 / (1 + math.exp(-2.0))
    s = 0.5 / p
    expected = 2.0 * (p + s) / (1 + 2 * s)
    torch.testing.assert_close(prior_correction(z)[:, 0], torch.full((2,), expected).double())


@given(st.integers(1, 9), st.integers(2, 7), st.integers(0, 20))
def test_the_prior_sums_to_one_and_prefers_the_commonest_class(count, classes, seed):
    z = logits(count, classes, seed)
    factors = (prior_correction(z) / z)[0]
    assert float(factors.sum()) == pytest.approx(1.0)
    assert int(factors.argmax()) == int(z.softmax(1).mean(0).argmax())
