"""MECTA's layers: their rate, statistics and gradients (methods.md 3.14)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from multipool.methods.mecta import Forgetting, forget_rate
from multipool.ops import Branch, LayerState, batch


def branch_of(channels, seed=0):
    g = torch.Generator().manual_seed(seed)
    draw = lambda: torch.rand(channels, generator=g, dtype=torch.float64)  # noqa: E731
    state = LayerState(draw() + 0.5, draw() - 0.5, draw() - 0.5, draw() + 0.3, 1e-5)
    return Branch([state], trainable=True)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def passes(branch, threshold, pruned, x, upstream):
    """Return output, gradients of x, w, b, and the policy after one pass."""
    policy, state = Forgetting(branch, threshold, pruned), branch.layers[0]
    policy.begin(torch.arange(len(state.mean)) / 10)
    x = x.clone().requires_grad_()
    out = policy(x, state)
    grads = torch.autograd.grad((out * upstream).sum(), [x, state.weight, state.bias])
    return out.detach(), grads, policy


@given(st.integers(1, 5), st.integers(0, 20))
def test_the_rate_comes_from_both_kl_divergences(channels, seed):
    g = torch.Generator().manual_seed(seed)
    m, n = (torch.randn(channels, generator=g).double() for _ in range(2))
    v, w = (torch.rand(channels, generator=g).double() for _ in range(2))
    one, other = Normal(m, (v + 1e-3).sqrt()), Normal(n, (w + 1e-3).sqrt())
    distance = kl_divergence(one, other) + kl_divergence(other, one)
    torch.testing.assert_close(forget_rate((m, v), (n, w)), 1 - torch.exp(-distance.mean()))


def test_statistics_move_by_the_rate_and_then_normalise():
    branch, x = branch_of(3), draw(4, 3, 5, 5) + 0.5
    old_mean, old_var = branch.layers[0].mean.clone(), branch.layers[0].var.clone()
    m, v = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    rate = forget_rate((m, v), (old_mean, old_var))
    out, _, _ = passes(branch, 0.0, 0.0, x, torch.ones_like(x))
    state = branch.layers[0]
    torch.testing.assert_close(state.mean, (1 - rate) * old_mean + rate * m)
    torch.testing.assert_close(state.var, (1 - rate) * old_var + rate * v)
    shape = (1, -1, 1, 1)
    hat = (x - state.mean.view(shape)) / (state.var.view(shape) + 1e-5).sqrt()
    torch.testing.assert_close(out, hat * state.weight.view(shape) + state.bias.view(shape))


def test_the_same_stream_again_and_again_settles_the_layer():
    branch, x = branch_of(3), draw(8, 3, 5, 5)
    policy = Forgetting(branch, 0.0025, 0.0)
    first = None
    for _ in range(200):
        policy(x, branch.layers[0])
        first = policy.learning() if first is None else first
    assert first.all()
    assert not policy.learning().any()


def test_gradients_are_those_of_training_mode_batchnorm_reparameterised():
    branch, x, upstream = branch_of(4), draw(3, 4, 5, 5), draw(3, 4, 5, 5, seed=1)
    _, got, _ = passes(branch, 0.0, 0.0, x, upstream)
    state = branch.layers[0]
    x = x.requires_grad_()
    m, v = x.mean((0, 2, 3)).detach(), x.var((0, 2, 3), unbiased=False).detach()
    std = (state.var + 1e-5).sqrt()
    weight = state.weight * (v + 1e-5).sqrt() / std
    bias = state.weight * (m - state.mean) / std + state.bias
    out = F.batch_norm(x, None, None, weight, bias, True)
    wanted = torch.autograd.grad((out * upstream).sum(), [x, state.weight, state.bias])
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_pruned_channels_get_the_published_gradients_and_the_others_the_full_ones():
    x, upstream = draw(3, 5, 4, 4), draw(3, 5, 4, 4, seed=1)
    _, full, _ = passes(branch_of(5), 0.0, 0.0, x, upstream)
    branch = branch_of(5)
    _, thin, _ = passes(branch, 0.0, 0.7, x, upstream)
    state, removed = branch.layers[0], 3  # floor(0.7 * 5), the lowest scores
    for a, b in zip(full, thin, strict=True):
        dim = 1 if a.ndim == 4 else 0
        torch.testing.assert_close(a.narrow(dim, removed, 2), b.narrow(dim, removed, 2))
    assert not thin[1][:removed].any()
    torch.testing.assert_close(thin[2], upstream.sum((0, 2, 3)))
    g = upstream[:, :removed]
    scale = (state.weight / (state.var + 1e-5).sqrt())[:removed].view(1, -1, 1, 1)
    torch.testing.assert_close(thin[0][:, :removed], scale * (g - g.mean((0, 2, 3), keepdim=True)))


def test_a_settled_layer_passes_the_gradient_on_as_it_came():
    branch, x, upstream = branch_of(3), draw(3, 3, 4, 4), draw(3, 3, 4, 4, seed=1)
    _, (grad_x, grad_w, grad_b), policy = passes(branch, 1.0, 0.5, x, upstream)
    torch.testing.assert_close(grad_x, upstream)
    assert not grad_w.any()
    assert not grad_b.any()
    assert not policy.learning().any()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from([0.0, 0.3, 0.7]))
def test_every_layer_loses_its_own_share_of_channels(widths, share):
    parts = [LayerState(*(torch.ones(n) for _ in range(4)), 1e-5) for n in widths]
    policy = Forgetting(Branch(parts), 0.0, share)
    scores = torch.rand(sum(widths), generator=torch.Generator().manual_seed(0))
    policy.begin(scores)
    for n, cached, own in zip(widths, policy._cached, scores.split(widths), strict=True):
        removed = int(n * share)
        assert int((cached == 0).sum()) == removed
        if removed:
            assert own[cached == 0].max() <= own[cached > 0].min()


def test_a_one_dimensional_layer_is_plain_batchnorm_and_always_learns():
    branch, x = branch_of(3), draw(6, 3)
    policy = Forgetting(branch, 1.0, 0.7)
    before = branch.statistics.clone()
    assert torch.equal(policy(x, branch.layers[0]), batch(x, branch.layers[0]))
    assert torch.equal(policy.peek(x, branch.layers[0]), batch(x, branch.layers[0]))
    assert torch.equal(branch.statistics, before)
    assert policy.learning().all()


def test_peeking_shows_the_same_and_moves_nothing():
    branch, x = branch_of(3), draw(6, 3, 4, 4)
    policy, before = Forgetting(branch, 0.0, 0.0), branch.statistics.clone()
    seen = policy.peek(x, branch.layers[0])
    assert torch.equal(branch.statistics, before)
    torch.testing.assert_close(seen, policy(x, branch.layers[0]))
    assert not torch.equal(branch.statistics, before)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_layout_does_not_matter(form):
    x, upstream = draw(3, 4, 5, 5), draw(3, 4, 5, 5, seed=1)
    _, plain, _ = passes(branch_of(4), 0.0, 0.5, x, upstream)
    _, other, _ = passes(branch_of(4), 0.0, 0.5, x.contiguous(memory_format=form), upstream)
    for a, b in zip(plain, other, strict=True):
        torch.testing.assert_close(a, b)
