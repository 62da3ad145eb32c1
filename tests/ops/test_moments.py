import pytest
import torch

from multipool.ops.moments import instance_moments


@pytest.mark.parametrize("shape", [(3, 4, 5, 2), (2, 3, 7), (1, 2, 2, 2, 3)])
@pytest.mark.parametrize("correction", [0, 1])
def test_moments_and_their_gradients_are_those_of_torch(shape, correction):
    torch.manual_seed(0)
    x = torch.randn(shape) + 5
    if x.ndim == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    space = tuple(range(2, x.ndim))
    var, mean = torch.var_mean(x, dim=space, correction=correction)
    found = instance_moments(x, correction)
    torch.testing.assert_close(found, (mean, var))
    up = torch.randn(2, *shape[:2])
    expected = torch.autograd.grad((mean * up[0] + var * up[1]).sum(), x)
    ours = torch.autograd.grad((found[0] * up[0] + found[1] * up[1]).sum(), x)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 1, 1)])
def test_one_position_is_its_own_mean_and_has_no_variance(shape):
    x = torch.randn(shape)
    mean, var = instance_moments(x, correction=1)
    assert torch.equal(mean, x.flatten(1))
    assert torch.equal(var, torch.zeros(3, 4))


def test_a_large_mean_does_not_swallow_the_variance():
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    _, near = instance_moments(x, 0)
    _, far = instance_moments(x + 1000, 0)
    torch.testing.assert_close(near, far, rtol=1e-3, atol=1e-3)
