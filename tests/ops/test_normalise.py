"""Every policy against its definition, written out with autograd in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.methods.resitta import Residual
from multipool.ops import LayerState, Robust, batch, frozen, fused, normalise
from multipool.ops.normalise import Mix


def layer(channels: int, seed: int = 0, grad: bool = True) -> LayerState:
    g = torch.Generator().manual_seed(seed)
    draw = lambda: torch.rand(channels, generator=g, dtype=torch.float64)  # noqa: E731
    weight, bias = (draw() + 0.5).requires_grad_(grad), (draw() - 0.5).requires_grad_(grad)
    return LayerState(weight, bias, draw() - 0.5, draw() + 0.3, 1e-5)


def vectors(state: LayerState) -> tuple[torch.Tensor, ...]:
    return state.weight, state.bias, state.mean, state.var


def literal_robust(x, state, rate):
    """RoTTA Sec. 3.2 as it stands: mix, then normalise; the stored part carries no gradient."""
    dims = [d for d in range(x.ndim) if d != 1]
    shape = [1, -1] + [1] * (x.ndim - 2)
    mean = (1 - rate) * state.mean + rate * x.mean(dims)
    var = (1 - rate) * state.var + rate * x.var(dims, unbiased=False)
    hat = (x - mean.view(shape)) / (var.view(shape) + state.eps).sqrt()
    return state.weight.view(shape) * hat + state.bias.view(shape), mean, var


shapes = st.sampled_from([(4, 3, 5, 6), (1, 2, 4, 4), (7, 3), (2, 5, 1, 1)])


@given(shapes, st.sampled_from([0.05, 0.5, 1.0]), st.integers(0, 20))
def test_robust_equals_its_definition_in_values_statistics_and_gradients(shape, rate, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g, dtype=torch.float64).requires_grad_()
    upstream = torch.randn(shape, generator=g, dtype=torch.float64)
    reference = layer(shape[1], seed)
    expected, mean, var = literal_robust(x, reference, rate)
    wanted = torch.autograd.grad((expected * upstream).sum(), [x, reference.weight, reference.bias])
    state = layer(shape[1], seed)
    out = Robust(rate)(x, state)
    got = torch.autograd.grad((out * upstream).sum(), [x, state.weight, state.bias])
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(state.mean, mean.detach())
    torch.testing.assert_close(state.var, var.detach())
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_robust_is_right_for_channels_last_input_too():
    x = torch.randn(4, 3, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    upstream = torch.randn_like(x)
    grads = []
    for form in (torch.contiguous_format, torch.channels_last):
        state = layer(3)
        leaf = x.detach().contiguous(memory_format=form).requires_grad_()
        out = Robust(0.05)(leaf, state)
        grads.append(torch.autograd.grad((out * upstream).sum(), leaf)[0])
    torch.testing.assert_close(grads[0], grads[1])


def test_robust_has_the_same_affine_gradient_where_its_input_needs_none():
    x = torch.randn(4, 3, 5, 6, generator=torch.Generator().manual_seed(1))
    upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    found = []
    for leaf in (x, x.clone().requires_grad_()):
        state = LayerState(*(t.detach().float() for t in vectors(layer(3))), 1e-5)
        wanted = [state.weight.requires_grad_(), state.bias.requires_grad_()]
        found.append(torch.autograd.grad((Robust(0.05)(leaf, state) * upstream).sum(), wanted))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_robust_without_gradients_moves_the_same_statistics():
    x = torch.randn(6, 3, 4, 4, dtype=torch.float64)
    with_grad, without = layer(3), layer(3)
    out = Robust(0.1)(x.clone().requires_grad_(), with_grad)
    with torch.no_grad():
        torch.testing.assert_close(Robust(0.1)(x, without), out)
    assert torch.equal(with_grad.mean, without.mean)
    assert torch.equal(with_grad.var, without.var)


def test_batch_uses_this_batch_alone_and_frozen_the_stored_statistics():
    x = torch.randn(8, 3, 4, 4, dtype=torch.float64)
    state = layer(3)
    before = state.mean.clone(), state.var.clone()
    out = batch(x, state)
    plain = (x - x.mean((0, 2, 3), keepdim=True)) / (
        x.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5
    ).sqrt()
    shape = (1, -1, 1, 1)
    torch.testing.assert_close(out, plain * state.weight.view(shape) + state.bias.view(shape))
    hat = (x - state.mean.view(shape)) / (state.var.view(shape) + 1e-5).sqrt()
    torch.testing.assert_close(
        frozen(x, state), hat * state.weight.view(shape) + state.bias.view(shape)
    )
    assert torch.equal(before[0], state.mean)
    assert torch.equal(before[1], state.var)


def test_one_value_a_channel_has_no_batch_variance_so_batch_falls_back():
    x, state = torch.randn(1, 4, dtype=torch.float64), layer(4)
    torch.testing.assert_close(batch(x, state), frozen(x, state))


@pytest.mark.parametrize("policy", [Robust(0.05), Residual(0.05), batch, frozen])
def test_every_policy_takes_bfloat16_and_keeps_float32_statistics(policy):
    state = LayerState(torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3), 1e-5)
    x = torch.randn(4, 3, 4, 4).bfloat16().requires_grad_()
    out = policy(x, state)
    out.float().square().sum().backward()
    assert x.grad.isfinite().all()
    assert out.dtype == torch.bfloat16
    assert state.mean.dtype == torch.float32
    assert out.isfinite().all()


@pytest.mark.parametrize("policy", [Robust(0.05), Residual(0.05), batch, frozen])
def test_vectors_reach_the_kernel_at_addresses_that_cudnn_can_read(policy, monkeypatch):
    def anywhere(values):
        return torch.cat([torch.zeros(10), values])[10:]  # 40 bytes in: not a multiple of 16

    seen, kernel = [], torch.batch_norm

    def watch(x, *given):
        seen.extend(v.data_ptr() % 16 for v in given if isinstance(v, torch.Tensor))
        return kernel(x, *given)

    monkeypatch.setattr(torch, "batch_norm", watch)
    monkeypatch.setattr(normalise, "_meets_cudnn", lambda x: True)
    torch.manual_seed(0)
    parts = [torch.rand(4) + 0.5 for _ in range(4)]
    outputs, gradients = [], []
    for place in (anywhere, torch.clone):
        state = LayerState(*(place(part) for part in parts), 1e-5)
        weight = state.weight.requires_grad_()
        x = torch.linspace(-1, 1, 2 * 4 * 9).view(2, 4, 3, 3)
        outputs.append(policy(x, state))
        outputs[-1].square().sum().backward()
        gradients.append(weight.grad)
    assert seen
    assert set(seen) == {0}
    assert torch.equal(*outputs)
    assert torch.equal(*gradients)


@pytest.mark.parametrize(("policy", "through"), [(Robust, 0.3), (Residual, 0.0)])
def test_fused_kernels_are_told_what_a_policy_mixes(policy, through):
    assert policy(0.3).mix == Mix(0.3, through, moves=True)
    rows = torch.tensor([1.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(policy(0.3, rows).mix.weights, rows / 3)
    assert fused.mix_of(policy(0.3), torch.zeros(2, 3)).through == through


def test_batch_is_a_mix_of_itself_alone_unless_a_channel_has_one_value():
    assert fused.mix_of(batch, torch.zeros(2, 3)) == Mix(1.0, 1.0)
    assert fused.mix_of(batch, torch.zeros(1, 3)) is None
    assert fused.mix_of(lambda x, state: x, torch.zeros(2, 3)) is None
