"""What multipool learns by gradients: a step by hand, and where it takes none."""

import numpy as np
import pytest
import torch
from torch import nn

from kinds import make_kind_net
from multipool.core import numpy_generator, torch_generator
from multipool.methods import adapt
from multipool.methods.multipool.learning import Learning
from multipool.ops import Network, View

SEED, LR = 3, {"lr": 0.004}  # the default, by name


def cross_entropy(p, z):
    return -(p * z.log_softmax(1)).sum(1)


def literal_step(net, average, x, view, length):
    """Take the step that learning.py describes with torch's own Adam; return the average."""
    affine = [p for m in net.modules() if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
    start = [p.detach().clone() for p in affine]
    z, again = net(x), net(view)
    p = z.softmax(1).detach()
    diversity = 1 - torch.cosine_similarity(average[None], p, dim=1)
    diversity = (diversity - diversity.min()) / (diversity.max() - diversity.min())
    certainty = (p * p.log()).sum(1)
    certainty = (certainty - certainty.min()) / (certainty.max() - certainty.min())
    w = torch.exp(3 * diversity * certainty) * (diversity >= diversity.mean())
    q = z.softmax(1).clamp(max=0.99)
    ratio = -(q * torch.log(q / (1 - q) + 1e-5)).sum(1)
    both = 0.5 * cross_entropy(z.softmax(1), again) + 0.5 * cross_entropy(again.softmax(1), z)
    optimizer = torch.optim.Adam(affine, lr=LR["lr"])
    (w * (ratio + both)).mean().backward()
    optimizer.step()
    with torch.no_grad():
        for now, old in zip(affine, start, strict=True):
            moved = old + length * (now - old)
            now.copy_(0.99 * moved + 0.01 * old)
    return torch.cat([p.detach().flatten() for p in affine]), 0.9 * average + 0.1 * p.mean(0)


@pytest.mark.parametrize("length", [1.0, 0.3])
def test_one_step_by_hand(make_net, make_images, batch_copy, length):
    network, x = Network(make_net(), num_classes=5), make_images(32, seed=4)
    learning = Learning(network.source, 5, LR["lr"])
    view = View(reflect=True)(x, numpy_generator(SEED, "v"), torch_generator(SEED))
    net, _ = batch_copy(make_net())
    expected, average = literal_step(net, torch.full((5,), 0.2), x, view, length)
    learning.step(network, x, view, torch.tensor(length))
    torch.testing.assert_close(learning.state["affine"], expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(learning.state["average"], average)
    assert not torch.equal(learning.state["affine"], network.source.affine)


def test_how_long_a_step_is(make_net):
    learning = Learning(Network(make_net(), num_classes=5).source, 5, 0.1)
    one, many = np.zeros(16, dtype=np.int64), np.arange(16)
    assert learning.length(one, 0.0) == 1.0
    assert learning.length(one, 0.75) == 0.25
    assert learning.length(one, 0.96) == 0.0  # classes come in runs
    assert learning.length(one, 0.5, 0.5) == 0.25
    assert learning.length(one, 0.0, 0.04) == 0.0  # the pool shows one of many classes
    assert learning.length(one[:15], 0.0) == 0.0  # too few for statistics of their own
    assert learning.length(many, 0.0) == 0.0  # of several domains


def test_it_learns_in_random_order_and_answers_with_what_it_learned(make_net, make_images):
    plain, learns = adapt(make_net(), options={"lr": 0.0}, seed=SEED), adapt(make_net(), seed=SEED)
    for adapter in (plain, learns):
        adapter.method.correlation.sums = np.array([1000.0, 0.0])  # known to be in random order
    x = [make_images(64, seed=t) for t in range(6)]
    assert torch.equal(plain(x[0]), learns(x[0]))  # nothing is learned before the first answer
    source = learns.network.source.affine
    assert not torch.equal(learns.method.student.affine, source)
    assert plain.method.student is plain.network.source
    for images in x[1:]:
        before, after = plain(images), learns(images)
    assert not torch.equal(before, after)
    assert (learns.method.student.affine - source).abs().max() < 6 * LR["lr"]


def test_runs_of_one_class_teach_nothing(make_net, make_images):
    adapter = adapt(make_net(), options=LR, seed=SEED)
    adapter.method.correlation.sums = np.array([1e6, 1e6])
    for t in range(4):
        adapter(make_images(64, seed=t))
    assert torch.equal(adapter.method.student.affine, adapter.network.source.affine)


def test_a_pool_teaches_while_it_is_new(make_net, make_images):
    adapter = adapt(make_net(), options={"learn_until": 96}, seed=SEED)
    moved = []
    for t in range(4):
        adapter.method.correlation.sums = np.array([1000.0, 0.0])
        before = adapter.method.student.affine.clone()
        adapter(make_images(32, seed=t))
        moved.append(not torch.equal(adapter.method.student.affine, before))
    assert moved == [True, True, True, False]
    assert len(adapter.pools) == 1
    adapter.method.accounts.counts[0] = 0  # as if another pool had come in its place
    adapter.method.correlation.sums = np.array([1000.0, 0.0])
    adapter(make_images(32, seed=9))
    assert not torch.equal(adapter.method.student.affine, before)


@pytest.mark.parametrize("guard", [True, False])
def test_a_model_without_gradients_is_served_all_the_same(make_net, make_images, caplog, guard):
    class Sealed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = make_net()

        @torch.no_grad()
        def forward(self, x):
            return self.net(x)

    adapter, plain = adapt(Sealed(), guard=guard), adapt(make_net(), options={"lr": 0.0})
    for method in (adapter.method, plain.method):
        method.correlation.sums = np.array([1000.0, 0.0])
    for t in range(3):
        x = make_images(32, seed=t)
        torch.testing.assert_close(adapter(x), plain(x))
    (said,) = [r for r in caplog.records if "gradient" in r.getMessage()]  # once
    assert "multipool learns nothing by gradients from this model" in said.getMessage()
    assert torch.equal(adapter.method.student.affine, adapter.network.source.affine)


def test_large_images_are_learned_from_in_smaller_batches(make_net):
    learning = Learning(Network(make_net(), num_classes=5).source, 5, 0.1)
    assert len(learning.some(torch.zeros(200, 3, 32, 32))) == 200
    assert len(learning.some(torch.zeros(64, 3, 224, 224))) == 20
    assert len(learning.some(torch.zeros(64, 3, 512, 512))) == 16  # statistics of their own


@pytest.mark.parametrize(("kind", "rate"), [("layernorm", 0.0018), ("groupnorm", 0.0003)])
def test_a_model_without_statistics_has_a_rate_of_its_own(make_images, kind, rate):
    adapter = adapt(make_kind_net(kind), seed=SEED)
    source = adapter.network.source.affine
    adapter.method.correlation.sums = np.array([1000.0, 0.0])
    adapter(make_images(32, seed=0))
    moved = (adapter.method.learning.student.affine - source).abs().max()
    assert 0.5 * rate < moved <= rate * 1.0001  # Adam's first step is as long as its rate


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_saved_and_resumed(resumed, make_net, norm):
    net = make_net()
    nn.init.zeros_(net.fc.bias)
    with torch.no_grad():
        net.fc.weight.mul_(0.01)  # all classes alike: whole steps
    if norm == "group":
        for name in ("bn1", "bn2", "bn3"):
            setattr(net, name, nn.GroupNorm(1, getattr(net, name).num_features))
    whole = adapt(net, options={"lr_without": LR["lr"]}, seed=SEED, num_classes=5)
    whole.method.correlation.sums = np.array([1000.0, 0.0])
    state, later = resumed(whole, net, 32).state_dict(), whole.state_dict()
    assert all(torch.equal(state[name], later[name]) for name in state)
    moved = state["learning.affine"] - whole.network.source.affine
    assert moved.abs().max() > LR["lr"]


def test_a_rate_that_is_no_number_is_refused(make_net):
    with pytest.raises(ValueError, match="'lr' of method 'multipool' must be a number, got nan"):
        adapt(make_net(), options={"lr": float("nan")}, num_classes=5)
