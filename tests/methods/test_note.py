import copy
import math

import pytest
import torch
from torch import nn

import multipool.memory as memory_room
from multipool.methods import adapt
from multipool.methods.note import InstanceAware
from multipool.ops import LayerState

CLASSES, SEED = 5, 3


class LiteralIABN(nn.Module):
    """methods.md 3.7, by torch's own functions."""

    def __init__(self, layer, k=4.0):
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().clone())
        self.bias = nn.Parameter(layer.bias.detach().clone())
        self.mean, self.var = layer.running_mean.clone(), layer.running_var.clone()
        self.eps, self.k = layer.eps, k

    def forward(self, x):
        size = x.shape[2] * x.shape[3]
        mean, var = self.mean.view(1, -1, 1, 1), self.var.view(1, -1, 1, 1)
        if self.training:
            mean = x.mean((0, 2, 3), keepdim=True)
            var = x.var((0, 2, 3), keepdim=True, unbiased=True)
            self.mean = 0.99 * self.mean + 0.01 * mean.detach().flatten()
            self.var = 0.99 * self.var + 0.01 * var.detach().flatten()
        own_mean, own_var = x.mean((2, 3), keepdim=True), x.var((2, 3), keepdim=True)

        def soft(v, t):
            return v.sign() * (v.abs() - t).clamp(min=0)

        m = mean + soft(own_mean - mean, self.k * ((var + self.eps) / size).sqrt())
        t = self.k * (var + self.eps) * math.sqrt(2 / (size - 1))
        v = (var + soft(own_var - var, t)).clamp(min=0)
        hat = (x - m) / (v + self.eps).sqrt()
        return hat * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)


class LiteralNOTE:
    def __init__(self, model, bank):
        self.net = copy.deepcopy(model).requires_grad_(False)
        for name in ("bn1", "bn2", "bn3"):
            setattr(self.net, name, LiteralIABN(getattr(model, name)))
        trained = [p for p in self.net.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=1e-3)
        self.bank, self.counter = bank, 0

    def __call__(self, x):
        self.net.eval()
        with torch.no_grad():
            z = self.net(x)
        p = z.softmax(1)
        u = -(p * (p + 1e-6).log()).sum(1)
        for i in range(len(x)):
            self.bank.add(x[i : i + 1], uncertainty=u[i : i + 1], labels=z[i : i + 1].argmax(1))
            self.counter += 1
            if self.counter % 64 == 0:
                self.learn()
        return z

    def learn(self):
        self.net.train()
        z = self.net(self.bank.retrieve(64).images)
        loss = -(z.softmax(1) * z.log_softmax(1)).sum(1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


@pytest.mark.parametrize(("bank", "size"), [("single", 64), ("mcm", 64), ("single", 40)])
def test_ten_steps_are_as_published(tiny_net, make_images, bank, size):
    adapter = adapt(tiny_net, "note", bank, seed=SEED, guard=False)
    pool = "reservoir" if bank == "single" else bank
    reference = LiteralNOTE(tiny_net, memory_room.build(pool, CLASSES, seed=SEED))
    for t in range(10):
        x = (make_images(size, seed=t) * (0.4 + 0.05 * t)).clamp(0, 1)
        torch.testing.assert_close(adapter(x), reference(x), rtol=5e-4, atol=5e-4)
    layers = [reference.net.bn1, reference.net.bn2, reference.net.bn3]
    stats = torch.cat([t for n in layers for t in (n.mean, n.var)])
    affine = torch.cat([t.detach() for n in layers for t in (n.weight, n.bias)])
    torch.testing.assert_close(adapter.method.student.statistics, stats, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(adapter.method.student.affine, affine, rtol=1e-3, atol=2e-4)
    assert (affine - adapter.network.source.affine).abs().max() > 1e-3


def test_its_own_pool_is_the_reservoir(tiny_net):
    assert isinstance(adapt(tiny_net, "note").memory, memory_room.ReservoirPool)


def test_an_image_is_predicted_by_itself(tiny_net, make_images):
    adapter = adapt(tiny_net, "note")
    x = make_images(8)
    alone = torch.cat([adapter.predict(x[i : i + 1]) for i in range(8)])
    torch.testing.assert_close(adapter.predict(x), alone, rtol=1e-4, atol=1e-4)


def test_the_loss_goes_down_on_a_stream_that_stands_still(tiny_net, make_images):
    adapter = adapt(tiny_net, "note", options={"lr": 0.01})
    losses = []
    adapter.observe(lambda facts: losses.append(facts["loss"]))
    for _ in range(8):
        adapter(make_images(64))
    assert losses[-1] < losses[0]


def test_single_images_update_every_sixty_four(tiny_net, make_images):
    adapter = adapt(tiny_net, "note")
    for t in range(65):
        adapter(make_images(1, seed=t))
    assert adapter.counts["updates"] == 1


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
