"""Losses against values worked out by hand and against torch."""

import math

import pytest
import torch
from torch.nn import functional as F

from multipool.ops import (
    class_means,
    entropy,
    soft_cross_entropy,
    symmetric_cross_entropy,
    uncertainty,
)
from multipool.ops.probability import conservative_entropy


def test_entropy_of_a_uniform_and_of_a_certain_prediction():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 0.0]])
    assert entropy(logits).tolist() == pytest.approx([math.log(4), 0.0])


def test_entropy_has_its_gradient_through_both_factors():
    z = torch.tensor([[0.3, -0.2, 1.0]], dtype=torch.float64, requires_grad=True)
    p = z.softmax(1)
    (got,) = torch.autograd.grad(entropy(z).sum(), z)
    expected = -p * (p.log() + entropy(z)[:, None])  # dH/dz = -p (log p + H)
    torch.testing.assert_close(got, expected)


def test_the_stored_uncertainty_can_be_slightly_negative():
    assert -2e-6 < float(uncertainty(torch.tensor([[100.0, 0.0]]))) < 0


def test_cross_entropies_against_torch():
    z, other = torch.randn(5, 4), torch.randn(5, 4)
    p = other.softmax(1)
    torch.testing.assert_close(soft_cross_entropy(z, p), F.cross_entropy(z, p, reduction="none"))
    both = F.cross_entropy(z, p, reduction="none")
    both = both + F.cross_entropy(other, z.softmax(1), reduction="none")
    torch.testing.assert_close(symmetric_cross_entropy(z, other), both / 2)


def test_class_means_average_each_class_and_leave_absent_ones_zero():
    features = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0]])
    means, counts = class_means(features, torch.tensor([2, 2, 0]), 4)
    assert means.tolist() == [[5, 5], [0, 0], [2, 1], [0, 0]]
    assert counts.tolist() == [1, 0, 2, 0]


def literal_opinion(z):
    """COME's entropy of opinion as its paper writes it: Dirichlet evidence exp(z)."""
    evidence, classes = z.exp(), z.shape[1]
    strength = evidence.sum(1, keepdim=True) + classes
    opinion = torch.cat([evidence / strength, classes / strength], dim=1) + 1e-7
    return -(opinion * opinion.log()).sum(1)


def test_the_conservative_entropy_is_that_of_beliefs_and_uncertainty():
    z = 3 * torch.randn(20, 6, dtype=torch.float64)
    torch.testing.assert_close(conservative_entropy(z), literal_opinion(z))
    nothing_known = torch.full((1, 4), -50.0)
    assert float(conservative_entropy(nothing_known)) == pytest.approx(0.0, abs=1e-5)
    large = torch.tensor([[300.0, 0.0, 0.0]])  # exp would overflow
    assert float(conservative_entropy(large)) == pytest.approx(0.0, abs=1e-5)


def test_the_conservative_entropy_has_no_slope_along_the_logits():
    z = torch.randn(8, 5, dtype=torch.float64, requires_grad=True)
    (held,) = torch.autograd.grad(conservative_entropy(z).sum(), z)
    assert float((held * z.detach()).sum(1).abs().max()) < 1e-12
    (free,) = torch.autograd.grad(literal_opinion(z).sum(), z)
    along = (free * z).sum(1, keepdim=True) / (z * z).sum(1, keepdim=True) * z
    torch.testing.assert_close(held, (free - along).detach())


def test_logits_of_nothing_have_a_finite_conservative_slope():
    z = torch.zeros(2, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(conservative_entropy(z).sum(), z)
    assert slope.isfinite().all()
