import copy
import math

import pytest
import torch
from torch import nn

from multipool.core import numpy_generator, torch_generator
from multipool.methods import adapt
from multipool.ops import View

CLASSES, SEED = 5, 3


class LiteralBalanced(nn.Module):
    """methods.md 3.10, class by class, gradients by autograd; affine parameters given."""

    def __init__(self, layer, weight, bias, eta, gamma):
        super().__init__()
        self.weight, self.bias = weight, bias
        self.mu, self.var = (
            layer.running_mean.repeat(CLASSES, 1),
            layer.running_var.repeat(CLASSES, 1),
        )
        self.mean, self.total = layer.running_mean.clone(), layer.running_var.clone()
        self.eps, self.eta, self.gamma, self.labels = layer.eps, eta, gamma, None

    def forward(self, x):
        mean, total = self.mean, self.total
        if self.training:
            mean, total = self.update(x)
            self.mean, self.total = mean.detach(), total.detach()
        hat = (x - mean.view(1, -1, 1, 1)) / (total.view(1, -1, 1, 1) + self.eps).sqrt()
        return hat * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)

    def update(self, x):
        present = self.labels.unique().tolist()
        n = {k: int((self.labels == k).sum()) for k in present}
        m = {k: self.eta if n[k] <= 1 / self.eta else 1 / n[k] for k in present}
        gap = {k: x[self.labels == k] - self.mu[k].view(1, -1, 1, 1) for k in present}
        d = {k: m[k] * gap[k].mean((2, 3)).sum(0) for k in present}
        s = {k: gap[k].square().mean((2, 3)).sum(0) for k in present}
        mu, var = list(self.mu), list(self.var)
        for k in present:
            mu[k] = mu[k] + (1 - self.gamma) * d[k]
            var[k] = var[k] + (1 - self.gamma) * (m[k] * (s[k] - n[k] * var[k]) - d[k] ** 2)
        u = len(present)
        up = sum(d.values()) / u
        gain = sum(m[k] * s[k] - d[k] ** 2 for k in present) / u
        loss = sum(m[k] * n[k] for k in present) / u
        mu = torch.stack([v + self.gamma * up for v in mu])
        var = torch.stack([v + self.gamma * (gain - loss * v) for v in var])
        self.mu, self.var = mu.detach(), var.detach()
        return mu.mean(0), var.mean(0) + mu.var(0)


class LiteralTRIBE:
    def __init__(self, model, eta=0.05, gamma=0.1, gate=0.2):
        layers = [model.bn1, model.bn2, model.bn3]
        self.shared = [
            (nn.Parameter(n.weight.detach().clone()), nn.Parameter(n.bias.detach().clone()))
            for n in layers
        ]
        fixed = [(n.weight.detach(), n.bias.detach()) for n in layers]
        self.student, self.auxiliary, self.source = (
            self.network(model, pairs, eta, gamma) for pairs in (self.shared, self.shared, fixed)
        )
        self.gate = gate
        self.optimizer = torch.optim.Adam([p for pair in self.shared for p in pair], lr=1e-3)
        self.draws, self.noise = numpy_generator(SEED, "draws", "tribe"), torch_generator(SEED)
        self.kept = 0

    def network(self, model, pairs, eta, gamma):
        net = copy.deepcopy(model).requires_grad_(False)
        for name, pair in zip(("bn1", "bn2", "bn3"), pairs, strict=True):
            setattr(net, name, LiteralBalanced(getattr(model, name), *pair, eta, gamma))
        return net

    def __call__(self, x):
        self.auxiliary.eval()
        with torch.no_grad():
            z = self.auxiliary(x)
        for net in (self.student, self.auxiliary, self.source):
            net.train()
            for layer in (net.bn1, net.bn2, net.bn3):
                layer.labels = z.argmax(1)
        view = View()(x, self.draws, self.noise)
        guide, learner = self.auxiliary(x), self.student(view)
        with torch.no_grad():
            source = self.source(x)
        entropy = -(guide.softmax(1) * guide.log_softmax(1)).sum(1)
        keep = entropy < self.gate * math.log(CLASSES)
        self.kept += int(keep.sum())
        loss = nn.functional.cross_entropy(learner[keep], guide[keep].argmax(1))
        loss = loss + 0.5 * ((guide - source)[keep] ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return z


def stream(make_images, size=24, steps=10):
    for t in range(steps):
        yield (make_images(size, seed=t) * (0.4 + 0.05 * t)).clamp(0, 1)


@pytest.mark.parametrize(
    ("eta", "gamma"), [(0.05, 0.1), (0.01, 0.0), (0.5, 0.5)]
)  # CIFAR-100, CIFAR-10, ImageNet
def test_ten_steps_are_as_published(tiny_net, make_images, eta, gamma):
    options = {"norm_rate": eta, "spread": gamma}
    adapter = adapt(tiny_net, "tribe", seed=SEED, guard=False, options=options)
    reference = LiteralTRIBE(tiny_net, eta, gamma)
    for x in stream(make_images):
        torch.testing.assert_close(adapter(x), reference(x), rtol=1e-3, atol=1e-3)
    assert 0 < reference.kept < 240
    for name in ("student", "auxiliary", "source"):
        layer, ours = getattr(reference, name).bn2, getattr(adapter, name).layers[1]
        torch.testing.assert_close(ours.class_mean, layer.mu, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(ours.class_var, layer.var, rtol=1e-3, atol=1e-3)
    affine = torch.cat([p.detach() for pair in reference.shared for p in pair])
    torch.testing.assert_close(adapter.affine.affine, affine, rtol=1e-3, atol=5e-4)
    assert (affine - adapter.network.source.affine).abs().max() > 1e-3


def test_three_sets_of_statistics_move_and_two_networks_share_parameters(tiny_net, make_images):
    adapter = adapt(tiny_net, "tribe", options={"gate": 1.0})
    adapter(make_images(32))
    student, auxiliary, source = adapter.student, adapter.auxiliary, adapter.source
    start = adapter.network.source
    for branch in (student, auxiliary, source):
        assert not torch.equal(branch.statistics, start.statistics)
    assert not torch.equal(student.statistics, auxiliary.statistics)  # a view, the clean images
    assert torch.equal(auxiliary.statistics, source.statistics)  # the same images, so far
    assert student.leaves is auxiliary.leaves
    assert not torch.equal(auxiliary.affine, start.affine)
    assert torch.equal(source.affine, start.affine)


def test_where_nothing_passes_momentum_goes_on_or_the_step_is_skipped(tiny_net, make_images):
    for skip in (False, True):
        adapter = adapt(tiny_net, "tribe", options={"gate": 1.0, "skip_empty": skip})
        adapter(make_images(32))
        adapter.config = type(adapter.config)(gate=-1.0, skip_empty=skip)
        before = adapter.affine.affine.clone()
        steps = float(adapter.optimizer.state["step"])
        adapter(make_images(32, seed=1))
        assert torch.equal(adapter.affine.affine, before) == skip
        assert (float(adapter.optimizer.state["step"]) == steps) == skip
        assert adapter.affine.affine.isfinite().all()


def test_single_images_work(tiny_net, make_images):
    adapter = adapt(tiny_net, "tribe", options={"gate": 1.0})
    for t in range(4):
        assert adapter(make_images(1, seed=t)).isfinite().all()
    assert adapter.counts == {"updates": 4, "skipped": 0, "restored": 0}
