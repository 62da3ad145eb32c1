import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from multipool.core import numpy_generator, torch_generator
from multipool.methods import adapt
from multipool.methods.tribe import Balanced, BalancedBranch
from multipool.ops import Branch, LayerState, View, frozen

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
        branch = getattr(adapter.method, "origin" if name == "source" else name)
        layer, ours = getattr(reference, name).bn2, branch.layers[1]
        torch.testing.assert_close(ours.class_mean, layer.mu, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(ours.class_var, layer.var, rtol=1e-3, atol=1e-3)
    affine = torch.cat([p.detach() for pair in reference.shared for p in pair])
    torch.testing.assert_close(adapter.method.affine.affine, affine, rtol=1e-3, atol=5e-4)
    assert (affine - adapter.network.source.affine).abs().max() > 1e-3


def test_three_sets_of_statistics_move_and_two_networks_share_parameters(tiny_net, make_images):
    adapter = adapt(tiny_net, "tribe", options={"gate": 1.0})
    adapter(make_images(32))
    student, auxiliary, source = (
        adapter.method.student,
        adapter.method.auxiliary,
        adapter.method.origin,
    )
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
        adapter.method.config = type(adapter.config)(gate=-1.0, skip_empty=skip)
        before = adapter.method.affine.affine.clone()
        steps = float(adapter.method.optimizer.state["step"])
        adapter(make_images(32, seed=1))
        assert torch.equal(adapter.method.affine.affine, before) == skip
        assert (float(adapter.method.optimizer.state["step"]) == steps) == skip
        assert adapter.method.affine.affine.isfinite().all()


def test_single_images_work(tiny_net, make_images):
    adapter = adapt(tiny_net, "tribe", options={"gate": 1.0})
    for t in range(4):
        assert adapter(make_images(1, seed=t)).isfinite().all()
    assert adapter.counts == {"updates": 4, "skipped": 0, "restored": 0}


LABELS, CHANNELS = 4, 3


def owner(trainable=False):
    torch.manual_seed(3)
    layers = [
        LayerState(
            torch.rand(CHANNELS) + 0.5, torch.randn(CHANNELS),
            torch.randn(CHANNELS), torch.rand(CHANNELS) + 0.3, 1e-5,
        )
        for _ in range(2)
    ]  # fmt: skip
    return Branch(layers, trainable=trainable)


class Literal:
    """methods.md 3.10 for one layer, a loop over classes and samples, in float64."""

    def __init__(self, layer, eta, gamma):
        self.mu = layer.mean.double().repeat(LABELS, 1)
        self.var = layer.var.double().repeat(LABELS, 1)
        self.layer, self.eta, self.gamma = layer, eta, gamma

    def __call__(self, x, labels):
        mu, var, x = self.mu.detach(), self.var.detach(), x.double()
        present = sorted(set(labels.tolist()))
        delta, step, spread, number = {}, {}, {}, {}
        for k in present:
            rows = [i for i in range(len(x)) if labels[i] == k]
            n = len(rows)
            step[k], number[k] = (self.eta if n <= 1 / self.eta else 1 / n), n
            centred = [x[i] - mu[k].view(-1, *[1] * (x.ndim - 2)) for i in rows]
            space = tuple(range(1, x.ndim - 1))
            mean = [c.mean(space) if space else c for c in centred]
            square = [(c**2).mean(space) if space else c**2 for c in centred]
            delta[k], spread[k] = step[k] * sum(mean), sum(square)
        new_mu, new_var = list(mu), list(var)
        for k in present:
            new_mu[k] = mu[k] + (1 - self.gamma) * delta[k]
            change = step[k] * (spread[k] - number[k] * var[k]) - delta[k] ** 2
            new_var[k] = var[k] + (1 - self.gamma) * change
        u = len(present)
        shared = sum(delta.values()) / u
        gain = sum(step[k] * spread[k] - delta[k] ** 2 for k in present) / u
        loss = sum(step[k] * number[k] for k in present) / u
        self.mu = torch.stack([m + self.gamma * shared for m in new_mu])
        self.var = torch.stack([v + self.gamma * (gain - loss * v) for v in new_var])
        self.mean = self.mu.mean(0)
        self.total = self.var.mean(0) + self.mu.var(0, unbiased=True)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        hat = (x - self.mean.view(shape)) / (self.total.view(shape) + self.layer.eps).sqrt()
        return hat * self.layer.weight.view(shape) + self.layer.bias.view(shape)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("eta", [0.05, 0.5])
@pytest.mark.parametrize("space", [(3, 2), ()])
def test_three_batches_are_as_defined(eta, gamma, space):
    branch = BalancedBranch(owner(), LABELS)
    reference = Literal(owner().layers[1], eta, gamma)
    for t in range(3):
        torch.manual_seed(t)
        x = torch.randn(7, CHANNELS, *space) + t
        labels = torch.randint(0, LABELS - 1, (7,))  # one class never comes
        found = Balanced(labels, LABELS, eta, gamma)(x, branch.layers[1])
        expected = reference(x, labels)
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    layer = branch.layers[1]
    for a, b in (
        (layer.class_mean, reference.mu),
        (layer.class_var, reference.var),
        (layer.mean, reference.mean),
        (layer.var, reference.total),
    ):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_gradients_flow_through_the_batchs_own_contribution(gamma):
    torch.manual_seed(0)
    x, up = torch.randn(6, CHANNELS, 2, 2, requires_grad=True), torch.randn(6, CHANNELS, 2, 2)
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    branch, reference = BalancedBranch(owner(True), LABELS), Literal(owner().layers[0], 0.4, gamma)
    found = Balanced(labels, LABELS, 0.4, gamma)(x, branch.layers[0])
    ours = torch.autograd.grad((found * up).sum(), x)[0]
    theirs = torch.autograd.grad((reference(x, labels) * up).sum(), x)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_at_first_every_class_holds_the_source_and_evaluation_equals_the_source():
    source = owner()
    branch = BalancedBranch(source, LABELS)
    x = torch.randn(4, CHANNELS, 2, 2)
    assert torch.equal(frozen(x, branch.layers[0]), frozen(x, source.layers[0]))
    assert all(torch.equal(row, source.statistics) for row in branch.class_statistics)


def test_branches_share_parameters_with_their_owner_and_nothing_else():
    shared = owner(True)
    one, other = BalancedBranch(shared, LABELS), BalancedBranch(shared, LABELS)
    x, labels = torch.randn(5, CHANNELS, 2, 2), torch.tensor([0, 1, 2, 3, 0])
    Balanced(labels, LABELS, 0.1, 0.1)(x, one.layers[0])
    assert not torch.equal(one.statistics, other.statistics)
    assert torch.equal(other.statistics, shared.statistics)
    shared.affine.mul_(2)
    assert torch.equal(one.layers[0].weight, other.layers[0].weight)
    assert torch.equal(one.layers[0].weight.detach(), shared.affine[:CHANNELS])


@given(repeat=st.integers(2, 6))
def test_a_class_that_comes_more_often_does_not_weigh_more(repeat):
    """With the mean of its class for each copy, the balance is the same however many there are."""
    x = torch.randn(2, CHANNELS, 1, 1, generator=torch.Generator().manual_seed(repeat))
    few, many = BalancedBranch(owner(), 2), BalancedBranch(owner(), 2)
    Balanced(torch.tensor([0, 1]), 2, 1.0, 0.0)(x, few.layers[0])
    crowd = torch.cat([x[:1].repeat(repeat, 1, 1, 1), x[1:]])
    labels = torch.tensor([0] * repeat + [1])
    Balanced(labels, 2, 1.0, 0.0)(crowd, many.layers[0])
    torch.testing.assert_close(few.layers[0].mean, many.layers[0].mean)
