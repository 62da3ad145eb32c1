"""Losses against values worked out by hand and against torch."""

import math

import pytest
import torch
from torch.nn import functional as F

from multipool.ops import (
    Cuts,
    age_weight,
    class_means,
    cosine_pull,
    entropy,
    soft_cross_entropy,
    squared_pull,
    symmetric_cross_entropy,
    uncertainty,
)


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


def test_age_weight_is_exp_minus_a_over_one_plus_exp_minus_a():
    ages = torch.tensor([1.0, 32.0, 640.0])
    expected = [math.exp(-a / 64) / (1 + math.exp(-a / 64)) for a in ages.tolist()]
    assert age_weight(ages, 64).tolist() == pytest.approx(expected)


def test_class_means_average_each_class_and_leave_absent_ones_zero():
    features = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0]])
    means, counts = class_means(features, torch.tensor([2, 2, 0]), 4)
    assert means.tolist() == [[5, 5], [0, 0], [2, 1], [0, 0]]
    assert counts.tolist() == [1, 0, 2, 0]


def pieces(seed: int):
    g = torch.Generator().manual_seed(seed)
    sizes = [3, 1, 4]
    values = torch.randn(8, dtype=torch.float64, generator=g)
    return values, torch.randn(8, dtype=torch.float64, generator=g), sizes


def test_the_cosine_pull_and_its_gradient_equal_autograd_over_torchs_cosine():
    values, anchor, sizes = pieces(0)
    values.requires_grad_()
    cosines = [
        F.cosine_similarity(v, a, dim=0)
        for v, a in zip(values.split(sizes), anchor.split(sizes), strict=True)
    ]
    expected = -sum(cosines) / 3
    (gradient,) = torch.autograd.grad(expected, values)
    value, slope = cosine_pull(values.detach(), anchor, Cuts(sizes))
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(slope, gradient)


def test_a_zero_tensor_has_cosine_zero_and_a_finite_gradient():
    values, anchor, sizes = pieces(1)
    values[:3] = 0
    value, slope = cosine_pull(values, anchor, Cuts(sizes))
    assert value.isfinite()
    assert slope.isfinite().all()


def test_the_squared_pull_counts_tensors_not_values():
    values, anchor, sizes = pieces(2)
    value, slope = squared_pull(values, anchor, Cuts(sizes))
    torch.testing.assert_close(value, (values - anchor).square().sum() / 3)
    torch.testing.assert_close(slope, 2 * (values - anchor) / 3)
