"""PeTTA against methods.md 3.16, twenty steps, and the parts of its loss."""

import copy
import math

import pytest
import torch
from literal import (
    CLASSES,
    SEED,
    LiteralRoTTA,
    compare,
    cross_entropy,
    features_of,
    follow,
    literal,
    norms,
    stored_entropy,
    stream,
)
from torch import nn
from torch.nn import functional as F

import multipool.memory as memory_room
from multipool.engine.statistics import SourceStatistics
from multipool.methods import adapt
from multipool.methods.petta import Cuts, cosine_pull, divergence, squared_pull
from multipool.ops import View


class LiteralPeTTA(LiteralRoTTA):
    """methods.md 3.16 with a loop over classes, five separate passes, a loop of cosines."""

    name = "petta"

    def __init__(self, model, bank, source, kind):
        super().__init__(model, bank)
        self.init, self.kind = literal(model), kind
        self.start = [p.detach().clone() for p in self.optimizer.param_groups[0]["params"]]
        with torch.no_grad():
            h, z = features_of(copy.deepcopy(model).eval(), source)
        classes = [h[z.argmax(1) == c] for c in range(CLASSES)]
        self.mean = torch.stack([(c if len(c) > 1 else h).mean(0) for c in classes])
        self.var = torch.stack([(c if len(c) > 1 else h).var(0) for c in classes])
        self.prototypes = self.mean.clone()

    def __call__(self, x):
        self.teacher.eval()
        with torch.no_grad():
            h, z = features_of(self.teacher, x)
        labels = z.argmax(1)
        for i in range(len(x)):
            u = stored_entropy(z[i : i + 1])
            self.bank.add(x[i : i + 1], uncertainty=u, labels=labels[i : i + 1])
        present = sorted(set(labels.tolist()))
        gaps = [(self.prototypes[c] - self.mean[c]) ** 2 / (self.var[c] + 1e-6) for c in present]
        gamma = 1 - torch.exp(-torch.stack(gaps).mean())
        for c in present:
            self.prototypes[c] = 0.95 * self.prototypes[c] + 0.05 * h[labels == c].mean(0)
        self.learn(gamma)
        return z

    def learn(self, gamma):
        x = self.bank.retrieve(64).images
        view = View()(x, self.draws, self.noise)
        for net in (self.teacher, self.student, self.init):
            net.train()
        with torch.no_grad():
            zt, zi = self.teacher(x), self.init(x)
        z = self.student(x)
        zv = self.student(view)
        if self.kind == "sce":
            terms = [
                cross_entropy(zt.softmax(1), z), cross_entropy(z.softmax(1), zt),
                cross_entropy(zt.softmax(1), zv), cross_entropy(zv.softmax(1), zt),
            ]  # fmt: skip
            loss = (sum(terms) / 4).mean()
        else:
            loss = cross_entropy(zt.softmax(1), zv).mean()
        now = self.optimizer.param_groups[0]["params"]
        cosines = [
            nn.functional.cosine_similarity(p, q, dim=0)
            for p, q in zip(now, self.start, strict=True)
        ]
        loss = loss - 10 * gamma * torch.stack(cosines).mean()
        loss = loss + cross_entropy(zi.softmax(1), zv).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        follow(self.teacher, self.student, (1 - gamma) * 1e-3)


@pytest.mark.parametrize("loss", ["sce", "ce"])
def test_petta_does_what_its_paper_does(tiny_net, make_images, loss):
    source = make_images(200, seed=9)
    adapter = adapt(
        tiny_net, "petta", source=[(source, None)], seed=SEED, guard=False, options={"loss": loss}
    )
    bank = memory_room.build("class-balanced", CLASSES, seed=SEED)
    reference = LiteralPeTTA(tiny_net, bank, source, loss)
    compare(adapter, reference, stream(make_images))
    torch.testing.assert_close(
        adapter.method.prototypes, reference.prototypes, rtol=1e-3, atol=1e-4
    )
    for layer, state in zip(norms(reference.init), adapter.method.init.layers, strict=True):
        torch.testing.assert_close(state.mean, layer.mean, rtol=1e-3, atol=1e-4)


def pieces(seed: int):
    g = torch.Generator().manual_seed(seed)
    sizes = [3, 1, 4]
    values = torch.randn(8, dtype=torch.float64, generator=g)
    return values, torch.randn(8, dtype=torch.float64, generator=g), sizes


def test_the_cosine_pull_and_its_gradient_equal_autograd_over_torchs_cosine():
    values, anchor, sizes = pieces(0)
    values.requires_grad_()
    cosines = [
        F.cosine_similarity(v, a, dim=0)
        for v, a in zip(values.split(sizes), anchor.split(sizes), strict=True)
    ]
    expected = -sum(cosines) / 3
    (gradient,) = torch.autograd.grad(expected, values)
    value, slope = cosine_pull(values.detach(), anchor, Cuts(sizes))
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(slope, gradient)


def test_a_zero_tensor_has_cosine_zero_and_a_finite_gradient():
    values, anchor, sizes = pieces(1)
    values[:3] = 0
    value, slope = cosine_pull(values, anchor, Cuts(sizes))
    assert value.isfinite()
    assert slope.isfinite().all()


def test_the_squared_pull_counts_tensors_not_values():
    values, anchor, sizes = pieces(2)
    value, slope = squared_pull(values, anchor, Cuts(sizes))
    torch.testing.assert_close(value, (values - anchor).square().sum() / 3)
    torch.testing.assert_close(slope, 2 * (values - anchor) / 3)


def test_divergence_is_none_at_the_source_and_pools_the_classes_present():
    source = SourceStatistics(torch.zeros(3, 2), torch.full((3, 2), 4.0), torch.ones(3).long())
    moved = torch.tensor([[2.0, 2.0], [4.0, 4.0], [9.0, 9.0]])
    present = torch.tensor([True, True, False])
    assert float(divergence(source.mean, present, source)) == 0
    expected = 1 - math.exp(-(1 + 4) / 2)  # squared drift over variance: 1 and 4
    assert float(divergence(moved, present, source)) == pytest.approx(expected, abs=1e-5)


def test_a_class_is_sensed_only_once_it_was_predicted(tiny_net, make_images):
    adapter = adapt(tiny_net, "petta", source=[(make_images(200, seed=9), None)], guard=False)
    method, x = adapter.method, make_images(40)
    present = adapter(x).argmax(dim=1).unique().tolist()  # 40 of 64: no update yet
    counted = method.pending_count.nonzero().flatten().tolist()
    assert counted == sorted(present)
    adapter(make_images(24, seed=1))
    assert method.pending_count.abs().max() == 0
    moved = (method.prototypes != method.statistics.mean).any(dim=1).nonzero().flatten().tolist()
    assert set(present) <= set(moved)
