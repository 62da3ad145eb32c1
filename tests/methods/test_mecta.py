"""MECTA (under EATA) against methods.md 3.14, with the layer written out for autograd."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from multipool.methods import adapt

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
