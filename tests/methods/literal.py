"""RoTTA read literally, and what its relatives share with it, to hold adapters against.

Whole separate networks, one loop a sample, torch's own Adam and autograd through everything; only
the bank and the random view are ours, and those have tests of their own.
"""

import copy

import torch
from torch import nn

from multipool.core import numpy_generator, torch_generator
from multipool.ops import View

CLASSES, STEPS, SEED = 5, 20, 3


class LiteralNorm(nn.Module):
    """Robust batch norm as published; ``through=False``: statistics without gradient (ResiTTA)."""

    def __init__(self, layer, rate, through):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(layer.weight.clone()),
            nn.Parameter(layer.bias.clone()),
        )
        self.register_buffer("mean", layer.running_mean.clone())
        self.register_buffer("var", layer.running_var.clone())
        self.register_buffer("source_mean", layer.running_mean.clone())
        self.register_buffer("source_var", layer.running_var.clone())
        self.eps, self.rate, self.through = layer.eps, rate, through

    def forward(self, x):
        mean, var = self.mean, self.var
        if self.training:
            batch_mean, batch_var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
            mean = (1 - self.rate) * self.mean + self.rate * batch_mean
            var = (1 - self.rate) * self.var + self.rate * batch_var
            self.mean, self.var = mean.detach().clone(), var.detach().clone()
            if not self.through:
                mean, var = mean.detach(), var.detach()
        shape = (1, -1, 1, 1)
        hat = (x - mean.view(shape)) / (var.view(shape) + self.eps).sqrt()
        return hat * self.weight.view(shape) + self.bias.view(shape)


def literal(model, through=True):
    """Return a copy with literal norms, of which only the affine parameters are trained.

    Layers that keep no statistics stay what they are: torch's own, or the model's.
    """
    net = copy.deepcopy(model).requires_grad_(False)
    for name, layer in list(net.named_children()):
        if isinstance(layer, nn.BatchNorm2d):
            setattr(net, name, LiteralNorm(layer, 0.05, through))
        elif name.startswith("norm"):
            layer.requires_grad_()
    return net


def norms(net):
    return [layer for layer in net.children() if isinstance(layer, LiteralNorm)]


def affine_of(net):
    """Return all affine parameters of normalisation layers as one vector."""
    named = net.named_parameters()
    return torch.cat([p.detach().flatten() for n, p in named if n.startswith(("bn", "norm"))])


def cross_entropy(p, z):
    return -(p * z.log_softmax(1)).sum(1)


def stored_entropy(z):
    p = z.softmax(1)
    return -(p * torch.log(p + 1e-6)).sum(1)


def follow(teacher, student, rate):
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters(), strict=True):
            t.copy_((1 - rate) * t + rate * s)


def features_of(net, x):
    found = []
    hook = net.fc.register_forward_hook(lambda m, i, o: found.append(i[0]))
    z = net(x)
    hook.remove()
    return found[0], z


class LiteralRoTTA:
    """methods.md 3.15, one sample after another."""

    name, through, gate = "rotta", True, None

    def __init__(self, model, bank):
        self.student, self.teacher = literal(model, self.through), literal(model, self.through)
        trainable = [p for p in self.student.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trainable, lr=1e-3)
        self.bank, self.counter = bank, 0
        self.draws, self.noise = numpy_generator(SEED, "draws", self.name), torch_generator(SEED)

    def __call__(self, x):
        self.teacher.eval()
        with torch.no_grad():
            z = self.teacher(x)
        u = stored_entropy(z)
        for i in range(len(x)):
            if self.gate is None or u[i] < self.gate:
                self.bank.add(x[i : i + 1], uncertainty=u[i : i + 1], labels=z[i : i + 1].argmax(1))
            self.counter += 1
            if self.counter % 64 == 0 and len(self.bank):
                self.update()
        return z

    def update(self):
        stored = self.bank.retrieve(64)
        x = stored.images
        view = View()(x, self.draws, self.noise)
        self.teacher.train(), self.student.train()
        with torch.no_grad():
            target = self.teacher(x).softmax(1)
        losses = cross_entropy(target, self.student(view))
        ages = stored.ages / self.bank.capacity
        self.take_step((losses * self.weights(ages)).mean())

    def weights(self, ages):
        return torch.exp(-ages) / (1 + torch.exp(-ages))

    def take_step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        follow(self.teacher, self.student, 1e-3)


def stream(make_images, size=64):
    """Yield batches whose brightness drifts, so that statistics and prototypes have to move."""
    for t in range(STEPS):
        yield (make_images(size, seed=100 + t) * (0.4 + 0.03 * t)).clamp(0, 1)


def compare(adapter, reference, batches):
    for x in batches:
        torch.testing.assert_close(adapter(x), reference(x), rtol=2e-4, atol=2e-4)
    for name, net in (("student", reference.student), ("teacher", reference.teacher)):
        branch = getattr(adapter.method, name)
        stats = torch.cat([torch.empty(0), *(t for n in norms(net) for t in (n.mean, n.var))])
        torch.testing.assert_close(branch.affine, affine_of(net), rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(branch.statistics, stats, rtol=1e-3, atol=1e-4)
    start = adapter.network.source.affine
    assert (adapter.method.student.affine - start).abs().max() > 1e-3, "nothing was learned"
