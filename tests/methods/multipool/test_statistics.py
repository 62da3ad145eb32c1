"""Normalisation with the statistics of pools, against formulas written out."""

import pytest
import torch
from torch.nn import functional as F

from multipool.methods.multipool.statistics import EachImage, moving, weighted, with_statistics
from multipool.ops import Branch, Network
from multipool.ops.normalise import LayerState


@pytest.fixture
def values():
    return torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0)) * 2 + 1


def state(mean, var):
    return LayerState(
        torch.tensor([1.0, 2.0, -1.0]), torch.tensor([0.5, 0.0, 1.0]), mean, var, 1e-5
    )


def test_weighted_moments_are_the_explicit_sums(values):
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    mean, var = weighted(values, weights)
    for c in range(3):
        m = sum(float(w) * float(values[i, c].mean()) for i, w in enumerate(weights))
        v = sum(float(w) * float((values[i, c] - m).square().mean()) for i, w in enumerate(weights))
        assert float(mean[c]) == pytest.approx(m, rel=1e-5)
        assert float(var[c]) == pytest.approx(v, rel=1e-5)


def test_even_weights_are_the_moments_of_the_batch(values):
    mean, var = weighted(values, torch.full((4,), 0.25))
    torch.testing.assert_close(mean, values.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(var, values.var(dim=(0, 2, 3), correction=0))


def test_each_image_is_normalised_as_if_it_were_alone(values):
    draw = torch.Generator().manual_seed(1)
    means = torch.randn(4, 3, generator=draw)
    variances = torch.rand(4, 3, generator=draw) + 0.2
    one = state(means, variances)
    found = EachImage()(values, one)
    for i in range(4):
        alone = values[i : i + 1]
        expected = F.batch_norm(alone, means[i], variances[i], one.weight, one.bias, eps=one.eps)
        torch.testing.assert_close(found[i : i + 1], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weights", [None, [0.7, 0.1, 0.1, 0.1]])
def test_a_moving_pool_is_the_literal_formula(values, weights):
    source = state(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 0.5, 2.0]))
    branch = Branch([source])
    start = torch.tensor([3.0, -1.0, 0.5, 0.3, 0.6, 0.9])  # three means, three variances
    own = start.clone()
    given = None if weights is None else torch.tensor(weights)
    layers, policy = moving(branch, own, torch.tensor([0.4]), torch.tensor(0.25), given)
    found = policy(values, layers.layers[0])
    if given is None:
        mean, var = values.mean(dim=(0, 2, 3)), values.var(dim=(0, 2, 3), correction=0)
    else:
        mean, var = weighted(values, given)
    expected = 0.75 * start + 0.25 * torch.cat([mean, var])
    torch.testing.assert_close(own, expected)  # moved in place
    mixed = 0.6 * torch.cat([source.mean, source.var]) + 0.4 * expected
    normalised = F.batch_norm(values, mixed[:3], mixed[3:], source.weight, source.bias, eps=1e-5)
    torch.testing.assert_close(found, normalised, rtol=1e-5, atol=1e-5)


def test_the_source_stays_as_it_is_while_a_pool_moves(tiny_net, make_images):
    branch = Network(tiny_net).source
    before = branch.statistics.clone()
    layers, policy = moving(branch, before.clone(), torch.ones(3), torch.tensor(1.0))
    policy(torch.rand(4, 6, 8, 8, generator=torch.Generator().manual_seed(0)), layers.layers[0])
    assert torch.equal(branch.statistics, before)


def test_layers_with_other_statistics_keep_their_order_and_affine_parameters(tiny_net):
    branch = Network(tiny_net).source
    numbers = torch.arange(float(len(branch.statistics)))
    layers = with_statistics(branch, numbers).layers
    joined = torch.cat([part for layer in layers for part in (layer.mean, layer.var)])
    assert torch.equal(joined, numbers)
    for ours, theirs in zip(layers, branch.layers, strict=True):
        assert ours.weight is theirs.weight
        assert ours.bias is theirs.bias
        assert len(ours.mean) == len(theirs.mean)
    by_image = with_statistics(branch, torch.stack([numbers, -numbers])).layers
    assert by_image[1].mean.shape == (2, 8)
    assert torch.equal(by_image[1].mean[1], -layers[1].mean)
