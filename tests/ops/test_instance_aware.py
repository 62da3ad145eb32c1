import math

import pytest
import torch

from multipool.ops import LayerState
from multipool.ops.instance_aware import InstanceAware


def state(channels=4, trainable=False):
    torch.manual_seed(7)
    weight, bias = torch.rand(channels) + 0.5, torch.randn(channels)
    mean, var = torch.randn(channels) / 5, torch.rand(channels) + 0.3
    return LayerState(weight.requires_grad_(trainable), bias, mean, var, 1e-5)


def soft(v, t):
    return torch.sign(v) * torch.clamp(v.abs() - t, min=0)


def literal(x, s, k, training):
    """methods.md 3.7, one instance and channel after another, in float64."""
    x = x.double()
    count, channels = x.shape[:2]
    size = x[0, 0].numel()
    out = torch.empty_like(x)
    for c in range(channels):
        m, v = s.mean[c].double(), s.var[c].double()
        if training:
            m, v = x[:, c].mean(), x[:, c].var(unbiased=True)
        for i in range(count):
            own = x[i, c]
            mu, var = m, v
            if size > 1:
                mu = m + soft(own.mean() - m, k * torch.sqrt((v + s.eps) / size))
                gap = own.var(unbiased=True) - v
                var = v + soft(gap, k * (v + s.eps) * math.sqrt(2 / (size - 1)))
                var = torch.clamp(var, min=0)
            out[i, c] = s.weight[c] * (own - mu) / torch.sqrt(var + s.eps) + s.bias[c]
    return out


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(6, 4, 5, 3), (1, 4, 3, 3), (6, 4), (5, 4, 1, 1)])
@pytest.mark.parametrize("k", [0.5, 4.0])
def test_it_is_its_definition(shape, k, training):
    torch.manual_seed(1)
    x = torch.randn(shape) * 1.5 + torch.randn(shape[:2]).view(*shape[:2], *[1] * (len(shape) - 2))
    s = state()
    expected = literal(x, s, k, training)
    found = InstanceAware(k, 0.01 if training else None)(x, s)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


def test_gradients_go_through_every_statistic():
    torch.manual_seed(1)
    x, up = torch.randn(5, 4, 4, 4, requires_grad=True), torch.randn(5, 4, 4, 4)
    s = state(trainable=True)
    expected = torch.autograd.grad((literal(x, s, 0.5, True) * up).sum(), (x, s.weight))
    found = torch.autograd.grad((InstanceAware(0.5, 0.01)(x, s) * up).sum(), (x, s.weight))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b.to(a.dtype), rtol=1e-3, atol=1e-4)


def test_small_deviations_fall_back_to_the_stored_statistics():
    s = state()
    torch.manual_seed(0)
    x = torch.randn(3, 4, 16, 16)
    x = (x - x.mean((2, 3), keepdim=True)) / x.std((2, 3), keepdim=True)
    shape = (1, -1, 1, 1)
    # Each instance has the stored moments, but for a tenth of a standard error.
    shift = 0.1 * (s.var / 256).sqrt()
    x = x * s.var.sqrt().view(shape) + (s.mean + shift).view(shape)
    expected = (x - s.mean.view(shape)) / (s.var.view(shape) + s.eps).sqrt()
    expected = expected * s.weight.view(shape) + s.bias.view(shape)
    torch.testing.assert_close(InstanceAware(4.0)(x, s), expected, rtol=1e-4, atol=1e-4)
    far = x + 3.0
    plain = (far - s.mean.view(shape)) / (s.var.view(shape) + s.eps).sqrt()
    assert (InstanceAware(4.0)(far, s) - plain).abs().max() > 1


def test_training_moves_the_stored_statistics_by_the_rate_and_evaluation_does_not():
    s, x = state(), torch.randn(6, 4, 3, 3) * 2 + 1
    mean, var = s.mean.clone(), s.var.clone()
    InstanceAware(4.0)(x, s)
    assert torch.equal(s.mean, mean)
    InstanceAware(4.0, 0.01)(x, s)
    unbiased = x.var((0, 2, 3), unbiased=True)
    torch.testing.assert_close(s.mean, 0.99 * mean + 0.01 * x.mean((0, 2, 3)))
    torch.testing.assert_close(s.var, 0.99 * var + 0.01 * unbiased)


def test_one_value_a_channel_keeps_the_stored_statistics():
    s, x = state(), torch.randn(1, 4)
    mean = s.mean.clone()
    expected = (x - s.mean) / (s.var + s.eps).sqrt() * s.weight + s.bias
    torch.testing.assert_close(InstanceAware(4.0, 0.01)(x, s), expected)
    assert torch.equal(s.mean, mean)


def test_an_image_is_normalised_by_itself_when_evaluated():
    s, x = state(), torch.randn(5, 4, 3, 3)
    whole = InstanceAware(1.0)(x, s)
    alone = torch.cat([InstanceAware(1.0)(x[i : i + 1], s) for i in range(5)])
    torch.testing.assert_close(whole, alone)
