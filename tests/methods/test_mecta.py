"""MECTA (under EATA) against methods.md 3.14, with the layer written out for autograd."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from multipool.methods import adapt
from multipool.methods.mecta import Forgetting, forget_rate
from multipool.ops import Branch, LayerState, batch

OPTIONS = {
    "lr": 5e-3,
    "threshold": 0.02,
    "pruned": 0.5,
    "entropy_margin": 0.8,
    "redundancy": 0.9,
    "fisher_weight": 20.0,
    "fisher_images": 64,
    "fisher_batch": 32,
}


class LiteralLayer(nn.Module):
    """Training-mode batch norm reparameterised to the moved statistics, channel by channel."""

    def __init__(self, layer):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(layer.weight.clone()),
            nn.Parameter(layer.bias.clone()),
        )
        self.mean, self.var = layer.running_mean.clone(), layer.running_var.clone()
        self.eps, self.removed, self.active, self.plain = layer.eps, [], True, False

    def forward(self, x):
        if self.plain:
            return F.batch_norm(x, None, None, self.weight, self.bias, True)
        m, v = x.mean((0, 2, 3)).detach(), x.var((0, 2, 3), unbiased=False).detach()
        gap, e = (m - self.mean) ** 2, 1e-3
        kl = ((v + e + gap) / (self.var + e) + (self.var + e + gap) / (v + e)) / 2 - 1
        self.rate = float(1 - torch.exp(-kl.mean()))
        self.mean = (1 - self.rate) * self.mean + self.rate * m
        self.var = (1 - self.rate) * self.var + self.rate * v
        self.active = self.rate > OPTIONS["threshold"]
        std = (self.var + self.eps).sqrt()
        shape = (1, -1, 1, 1)
        if not self.active:
            out = (x - self.mean.view(shape)) / std.view(shape) * self.weight.view(shape)
            out = (out + self.bias.view(shape)).detach()
            return out + x - x.detach()
        weight = self.weight * (v + self.eps).sqrt() / std
        bias = self.weight * (m - self.mean) / std + self.bias
        full = F.batch_norm(x, None, None, weight, bias, True, eps=self.eps)
        # A pruned channel: no gradient of its weight, none through the variance.
        centred = x - x.mean((0, 2, 3), keepdim=True) + m.view(shape)
        loose = (centred - self.mean.view(shape)) / std.view(shape)
        loose = loose * self.weight.detach().view(shape) + self.bias.view(shape)
        keep = torch.ones(len(m), dtype=torch.bool)
        keep[self.removed] = False
        return torch.where(keep.view(shape), full, loose)


class Literal:
    def __init__(self, model, source):
        self.net = copy.deepcopy(model).requires_grad_(False)
        self.layers = []
        for name in ("bn1", "bn2", "bn3"):
            setattr(self.net, name, LiteralLayer(getattr(model, name)))
            self.layers.append(getattr(self.net, name))
        self.affine = [p for layer in self.layers for p in (layer.weight, layer.bias)]
        self.start = [p.detach().clone() for p in self.affine]
        self.fisher = self.weigh(source)
        self.optimizer = torch.optim.SGD(self.affine, lr=OPTIONS["lr"], momentum=0.9)
        self.average, self.limit = None, OPTIONS["entropy_margin"] * math.log(5)
        self.settled = 0

    def weigh(self, source):
        for layer in self.layers:
            layer.plain = True
        total = [torch.zeros_like(p) for p in self.affine]
        for x in source.split(32):
            z = self.net(x)
            grads = torch.autograd.grad(F.cross_entropy(z, z.argmax(1)), self.affine)
            total = [t + g**2 / 2 for t, g in zip(total, grads, strict=True)]
        for layer in self.layers:
            layer.plain = False
        return total

    def __call__(self, x, removed):
        for layer, channels in zip(self.layers, removed, strict=True):
            layer.removed = channels
        z = self.net(x)
        p = z.softmax(1)
        h = -(p * z.log_softmax(1)).sum(1)
        keep = h.detach() < self.limit
        if self.average is not None:
            keep &= torch.cosine_similarity(self.average[None], p.detach(), dim=1).abs() < 0.9
        self.settled += sum(not layer.active for layer in self.layers)
        if keep.any():
            mean = p[keep].detach().mean(0)
            self.average = mean if self.average is None else 0.9 * self.average + 0.1 * mean
            loss = (h[keep] * torch.exp(self.limit - h[keep].detach())).mean()
            for i, layer in enumerate(self.layers):
                for j in (2 * i, 2 * i + 1):
                    if layer.active:
                        gap = (self.affine[j] - self.start[j]) ** 2
                        loss = loss + OPTIONS["fisher_weight"] * (self.fisher[j] * gap).sum()
            if any(layer.active for layer in self.layers):
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
        return z.detach()


def removed_by(scores):
    """Return, layer by layer, the half of the channels with the lowest scores."""
    parts = scores.split([6, 8, 8])
    return [part.argsort()[: len(part) // 2] for part in parts]


def test_ten_steps_do_what_the_definition_does(tiny_net, drift, make_images):
    source = make_images(64, seed=9)
    adapter = adapt(tiny_net, "mecta", source=[source], seed=3, guard=False, options=OPTIONS)
    reference = Literal(tiny_net, source)
    torch.testing.assert_close(
        adapter.method.fisher, torch.cat(reference.fisher), rtol=1e-3, atol=1e-7
    )
    twin = torch.Generator()
    for x in [*drift(), drift()[-2]]:
        twin.set_state(adapter.method.noise.get_state())
        expected = reference(x, removed_by(torch.rand(22, generator=twin)))
        torch.testing.assert_close(adapter(x), expected, rtol=1e-3, atol=1e-3)
    now = torch.cat([p.detach() for p in reference.affine])
    torch.testing.assert_close(adapter.method.student.affine, now, rtol=1e-3, atol=1e-4)
    stats = torch.cat([t for layer in reference.layers for t in (layer.mean, layer.var)])
    torch.testing.assert_close(adapter.method.student.statistics, stats, rtol=1e-3, atol=1e-4)
    assert (now - torch.cat(reference.start)).abs().max() > 1e-3, "nothing was learned"
    assert 0 < reference.settled < 33, "no layer ever settled, or all did"


def test_settled_layers_hold_still_and_keep_their_momentum(tiny_net, make_images):
    adapter = adapt(tiny_net, "mecta", source=[make_images(64, seed=9)], options=OPTIONS)
    adapter(make_images(32, seed=1))
    before = adapter.state_dict()
    adapter.method.norm.threshold = 1.0  # no rate exceeds 1: every layer has settled
    adapter(make_images(32, seed=2))
    after = adapter.state_dict()
    assert torch.equal(before["student.affine"], after["student.affine"])
    assert torch.equal(before["optimizer.momentum"], after["optimizer.momentum"])
    assert not torch.equal(before["student.statistics"], after["student.statistics"])


def test_predict_uses_the_statistics_a_call_would_and_moves_none(tiny_net, make_images):
    adapter = adapt(tiny_net, "mecta", source=[make_images(64, seed=9)])
    before = adapter.state_dict()
    expected = adapter.predict(make_images(32))
    assert all(torch.equal(v, before[k]) for k, v in adapter.state_dict().items())
    torch.testing.assert_close(adapter(make_images(32)), expected)


def test_an_undone_update_leaves_the_statistics_too(tiny_net, make_images):
    adapter = adapt(tiny_net, "mecta", source=[make_images(64, seed=9)])
    before = adapter.method.student.statistics.clone()
    adapter.method.fisher.fill_(float("nan"))
    assert adapter(make_images(32)).isfinite().all()
    assert torch.equal(adapter.method.student.statistics, before)


def test_pruning_everything_is_refused(tiny_net, make_images):
    with pytest.raises(ValueError, match="pruned must be a share from 0 to below 1, got 1.0"):
        adapt(tiny_net, "mecta", source=[make_images(8)], options={"pruned": 1.0})


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
