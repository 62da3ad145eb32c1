import copy
import math

import pytest
import torch
from torch import nn

import multipool.memory as memory_room
from multipool.methods import adapt

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
    torch.testing.assert_close(adapter.student.statistics, stats, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(adapter.student.affine, affine, rtol=1e-3, atol=2e-4)
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
