"""ResiTTA against methods.md 3.17, twenty steps, and its two ways back to the source."""

import math

import pytest
import torch
from literal import CLASSES, SEED, LiteralRoTTA, compare, norms, stream

import multipool.memory as memory_room
from multipool.methods import adapt
from multipool.methods.resitta import Alignment, Residual
from multipool.ops import Branch, LayerState


class LiteralResiTTA(LiteralRoTTA):
    """methods.md 3.17: no age weights, an entropy gate, statistics pulled back."""

    name, through, gate = "resitta", False, 0.4 * math.log(CLASSES)

    def weights(self, ages):
        return torch.ones_like(ages)

    def take_step(self, loss):
        super().take_step(loss)
        for net in (self.student, self.teacher):
            for layer in norms(net):
                s, s0 = (layer.var + layer.eps).sqrt(), (layer.source_var + layer.eps).sqrt()
                layer.mean = layer.mean - 2 * 0.05 * (layer.mean - layer.source_mean)
                layer.var = (s - 2 * 0.05 * (s - s0)) ** 2 - layer.eps


@pytest.mark.parametrize("bank", ["single", "mcm"])
def test_resitta_does_what_its_release_does(tiny_net, make_images, bank):
    adapter = adapt(tiny_net, "resitta", bank, seed=SEED, guard=False)
    pool = "entropy" if bank == "single" else bank
    reference = LiteralResiTTA(tiny_net, memory_room.build(pool, CLASSES, seed=SEED))
    compare(adapter, reference, stream(make_images))


def states(seed: int) -> list[LayerState]:
    g = torch.Generator().manual_seed(seed)
    return [LayerState(*(torch.rand(c, generator=g) + 0.1 for _ in range(4)), 1e-3) for c in (2, 3)]


def test_align_takes_one_gradient_step_on_the_wasserstein_distance():
    source, branch = Branch(states(0)), Branch(states(1))
    rate = 0.05
    expected = []
    for ours, theirs in zip(branch.layers, source.layers, strict=True):
        mean = ours.mean.clone().requires_grad_()
        s = (ours.var + 1e-3).sqrt().requires_grad_()
        gap = (mean - theirs.mean).square().sum() + (s - (theirs.var + 1e-3).sqrt()).square().sum()
        d_mean, d_s = torch.autograd.grad(gap, [mean, s])
        expected += [mean - rate * d_mean, (s - rate * d_s).square() - 1e-3]
    Alignment(source)(branch, rate)
    torch.testing.assert_close(branch.statistics, torch.cat(expected).detach())


def test_the_normalisation_treats_its_statistics_as_constants():
    g = torch.Generator().manual_seed(0)
    parts = [torch.rand(3, generator=g, dtype=torch.float64) + 0.3 for _ in range(4)]
    state = LayerState(*(p.clone() for p in parts), 1e-5)
    x = torch.randn(6, 3, 4, 4, generator=g, dtype=torch.float64).requires_grad_()
    out = Residual(0.05)(x, state)
    mean = 0.95 * parts[2] + 0.05 * x.detach().mean((0, 2, 3))
    var = 0.95 * parts[3] + 0.05 * x.detach().var((0, 2, 3), unbiased=False)
    shape = (1, -1, 1, 1)
    scale = (parts[0] / (var + 1e-5).sqrt()).view(shape)
    expected = (x.detach() - mean.view(shape)) * scale + parts[1].view(shape)
    torch.testing.assert_close(out.detach(), expected)
    torch.testing.assert_close(state.mean, mean)
    torch.testing.assert_close(state.var, var)
    upstream = torch.randn(x.shape, generator=g, dtype=torch.float64)
    (grad,) = torch.autograd.grad((out * upstream).sum(), x)
    torch.testing.assert_close(grad, upstream * scale)


def test_doubtful_samples_are_not_stored_and_do_not_count_as_time(tiny_net, make_images):
    adapter = adapt(tiny_net, "resitta", "fifo", options={"gate": 0.0})
    adapter(make_images(64))
    assert len(adapter.memory) == 0
    assert adapter.memory.events["added"] == 0
    adapter = adapt(tiny_net, "resitta", "fifo", options={"gate": 2.0})
    adapter(make_images(64))
    assert adapter.memory.events["added"] == 64


def test_its_own_pool_keeps_the_surest(tiny_net):
    assert isinstance(adapt(tiny_net, "resitta").memory, memory_room.EntropyPool)


def test_the_pull_on_parameters_holds_them_back(tiny_net, make_images):
    way = []
    for pull in (0.0, 100.0):
        adapter = adapt(tiny_net, "resitta", options={"affine_pull": pull, "gate": 2.0})
        for t in range(6):
            adapter(make_images(64, seed=t))
        way.append(float((adapter.method.student.affine - adapter.network.source.affine).norm()))
    assert way[1] < 0.7 * way[0]
