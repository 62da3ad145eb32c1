"""SoTTA against its paper's Eq. 2 to 4 and the facts of its release, one sample after another."""

import copy
import math

import pytest
import torch

import multipool.memory as memory_room
from kinds import make_kind_net
from multipool.methods import adapt

CLASSES, SEED = 5, 3
OPTIONS = {"confidence": 0.6}


class Literal:
    """torch's own BatchNorm with momentum, Adam with its own penalty, one loop a sample."""

    def __init__(self, model, bank, confidence=0.6):
        self.net, self.bank, self.confidence = copy.deepcopy(model), bank, confidence
        self.net.requires_grad_(False)
        self.norms = [m for m in self.net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        for layer in self.norms:
            layer.momentum = 0.2
        named = self.net.named_parameters()
        self.affine = [p.requires_grad_() for n, p in named if n.startswith(("bn", "norm"))]
        self.optimizer = torch.optim.Adam(self.affine, lr=1e-3, weight_decay=5e-4)
        self.counter = self.taken = 0

    def __call__(self, x):
        self.net.eval()
        with torch.no_grad():
            z = self.net(x)
        for i in range(len(x)):
            best = z[i].softmax(0).max()
            if best >= self.confidence:
                self.taken += 1
                self.bank.add(x[i : i + 1], uncertainty=-best.log()[None], labels=z[[i]].argmax(1))
            self.counter += 1
            if self.counter % 64 == 0 and len(self.bank):
                self.update(self.bank.retrieve(64).images)
        return z

    def slope(self, x):
        p = self.net(x).softmax(1)
        return torch.autograd.grad((-p * torch.log(p + 1e-6)).sum(1).mean(), self.affine)

    def update(self, x):
        self.net.train()
        grads = self.slope(x)
        length = math.sqrt(sum(float((g**2).sum()) for g in grads))
        kept = [p.detach().clone() for p in self.affine]
        with torch.no_grad():
            for p, g in zip(self.affine, grads, strict=True):
                p += 0.05 * g / length
        grads = self.slope(x)
        with torch.no_grad():
            for p, g, old in zip(self.affine, grads, kept, strict=True):
                p.copy_(old)
                p.grad = g
        self.optimizer.step()


@pytest.mark.parametrize("bank", ["single", "mcm", "mcm+"])
@pytest.mark.parametrize("size", [64, 40])
def test_sotta_does_what_its_paper_does(tiny_net, make_images, bank, size):
    adapter = adapt(tiny_net, "sotta", bank, seed=SEED, guard=False, options=OPTIONS)
    pool = "confidence" if bank == "single" else bank
    reference = Literal(tiny_net, memory_room.build(pool, CLASSES, seed=SEED))
    for t in range(12):
        x = (make_images(size, seed=100 + t) * (0.4 + 0.04 * t)).clamp(0, 1)
        torch.testing.assert_close(adapter(x), reference(x), rtol=5e-4, atol=5e-4)
    affine = torch.cat([p.detach() for p in reference.affine])
    stats = torch.cat([t for n in reference.norms for t in (n.running_mean, n.running_var)])
    student = adapter.method.student
    torch.testing.assert_close(student.affine, affine, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(student.statistics, stats, rtol=1e-3, atol=1e-4)
    assert (affine - adapter.network.source.affine).abs().max() > 1e-3, "nothing was learned"
    assert 0 < reference.taken < 12 * size, "the threshold was not put to the test"


@pytest.mark.parametrize("kind", ["layernorm", "groupnorm"])
def test_layers_without_statistics_learn_the_same_way(kind, make_images):
    model = make_kind_net(kind)
    options, pool = {"confidence": 0.28}, {"threshold": math.inf}
    bank = memory_room.build("confidence", CLASSES, seed=SEED, **pool)
    reference = Literal(model, bank, 0.28)
    adapter = adapt(model, "sotta", seed=SEED, guard=False, options=options, memory_options=pool)
    for t in range(8):
        x = make_images(64, seed=100 + t)
        torch.testing.assert_close(adapter(x), reference(x), rtol=5e-4, atol=5e-4)
    affine = torch.cat([p.detach() for p in reference.affine])
    torch.testing.assert_close(adapter.method.student.affine, affine, rtol=1e-3, atol=1e-4)
    assert (affine - adapter.network.source.affine).abs().max() > 1e-3, "nothing was learned"


def test_its_own_pool_is_the_confident_one(tiny_net):
    assert isinstance(adapt(tiny_net, "sotta").memory, memory_room.ConfidencePool)


@pytest.mark.parametrize("bank", ["single", "mcm", "fifo"])
def test_no_bank_is_given_a_doubtful_sample(tiny_net, make_images, bank):
    adapter = adapt(tiny_net, "sotta", bank, options={"confidence": 1.0})
    adapter(make_images(64))
    assert len(adapter.memory) == 0
    assert adapter.counts["updates"] == 0


def test_confidence_is_told_in_nats(tiny_net, make_images):
    adapter = adapt(tiny_net, "sotta", options=OPTIONS)
    adapter(make_images(64))
    assert len(adapter.memory) > 0
    stored = adapter.memory.retrieve(None)
    assert float(stored.uncertainty.max()) <= -math.log(0.6)


def test_an_update_moves_the_statistics_twice(tiny_net, make_images):
    options = {"confidence": 0.2, "radius": 0.0}
    everything = {"threshold": math.inf}
    adapter = adapt(tiny_net, "sotta", guard=False, options=options, memory_options=everything)
    x = make_images(64)
    adapter(x)
    first = adapter.method.student.layers[0].mean
    wanted = torch.nn.functional.conv2d(x, tiny_net.conv1.weight, padding=1).mean((0, 2, 3))
    torch.testing.assert_close(first, tiny_net.bn1.running_mean.lerp(wanted, 1 - 0.8**2))


def test_a_memory_of_one_image_is_learned_from(tiny_net, make_images):
    adapter = adapt(tiny_net, "sotta", guard=False, options={"confidence": 0.2, "update_every": 1})
    assert adapter(make_images(1)).isfinite().all()
    assert adapter.counts["updates"] == 1
    assert adapter.method.student.statistics.isfinite().all()
