"""EcoTTA: the parts of a network, the warm-up and ten steps, against plain modules of torch."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from multipool.methods import adapt, load
from multipool.methods.ecotta.parts import MetaNetworks, places
from multipool.ops import Network

OPTIONS = {"warmup_epochs": 3, "source_batch": 32, "entropy_margin": 0.7, "distil_weight": 0.5}


@pytest.fixture
def source(make_images):
    return [(make_images(32, seed=70 + i), torch.arange(32) % 5) for i in range(3)]


class Small(nn.Module):
    """The small network beside one part."""

    def __init__(self, width, out):
        super().__init__()
        self.outer = nn.BatchNorm2d(out)
        self.conv = nn.Conv2d(width, out, 3, padding=1, bias=False)
        self.inner = nn.BatchNorm2d(out)

    def forward(self, x, before):
        return self.outer(x) + F.relu(self.inner(self.conv(before)))


class Literal(nn.Module):
    """The tiny network written out, with a small one behind each normalisation layer."""

    def __init__(self, net, leaves):
        super().__init__()
        self.net = net.requires_grad_(False).train()
        self.small = nn.ModuleList([Small(6, 6), Small(6, 8), Small(8, 8)])
        own = [p for s in self.small for p in s.parameters()]
        with torch.no_grad():
            for mine, theirs in zip(own, leaves, strict=True):
                mine.copy_(theirs)
        self.apart = 0

    def forward(self, x):
        net, self.apart, carry = self.net, 0, None
        for conv, bn, small in zip(
            (net.conv1, net.conv2, net.conv3), (net.bn1, net.bn2, net.bn3), self.small, strict=True
        ):
            x = conv(x)
            carry = x if carry is None else carry
            part = bn(x)
            alone = small(part.detach(), carry.detach())
            self.apart = self.apart + (alone - part.detach()).abs().mean()
            carry = small(part, carry)
            x = torch.relu(carry)
        return net.fc(x.mean(dim=(2, 3)))


def test_ten_steps_do_what_the_definition_does(make_net, source, drift):
    adapter = adapt(make_net(), "ecotta", source=source, guard=False, options=OPTIONS)
    meta = adapter.method.meta
    reference = Literal(make_net(), meta.flat.leaves)
    trained = list(reference.small.parameters())
    optimizer = torch.optim.SGD(trained, lr=5e-3, momentum=0.9)
    start = meta.values.clone()
    for x in drift():
        z = reference(x)
        doubt = -(z.softmax(1) * z.log_softmax(1)).sum(1)
        sure = doubt[doubt < 0.7 * math.log(5)]
        loss = 0.5 * reference.apart + (sure.mean() if len(sure) else 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(adapter(x), z.detach(), rtol=1e-3, atol=1e-3)
    for mine, theirs in zip(meta.flat.leaves, trained, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
    assert (meta.values - start).abs().max() > 1e-2, "nothing was learned"


def test_the_warm_up_is_sgd_on_labels_whose_rate_rises_and_falls(make_net, source):
    options = {**OPTIONS, "warmup_epochs": 10}
    adapter = adapt(make_net(), "ecotta", source=source, guard=False, options=options, seed=3)
    cold = adapt(
        make_net(), "ecotta", source=source, options={**OPTIONS, "warmup_epochs": 0}, seed=3
    )
    reference = Literal(make_net(), cold.method.meta.flat.leaves)
    optimizer = torch.optim.SGD(reference.small.parameters(), lr=5e-2, momentum=0.9)
    from multipool.engine.replay import Replay

    replay = Replay(source, "ecotta", 5, 50_000, 32, 3)
    for index in range(30):
        epoch = index / 3
        share = min(1, epoch) * 0.2 ** sum(epoch >= m for m in (3, 6, 8))
        optimizer.param_groups[0]["lr"] = 5e-2 * share
        images, labels = replay.batch(index)
        optimizer.zero_grad()
        F.cross_entropy(reference(images), labels).backward()
        optimizer.step()
    warm = torch.cat([leaf.detach().flatten() for leaf in adapter.method.meta.flat.leaves])
    own = torch.cat([p.detach().flatten() for p in reference.small.parameters()])
    torch.testing.assert_close(warm, own, rtol=5e-3, atol=5e-3)


def test_blocks_are_the_members_of_lists_and_the_last_part_takes_the_rest():
    from multipool.models.wide import WideResNet

    torch.manual_seed(0)
    network = Network(WideResNet(10, 16, 1).eval())
    found = places(network, (3, 32, 32))
    assert [place.given for place in found] == [
        (16, 32, 32), (16, 32, 32), (32, 16, 16), (32, 16, 16), (64, 8, 8), (64, 8, 8),
    ]  # fmt: skip
    import numpy as np

    meta = MetaNetworks(network, (3, 32, 32), 5, np.random.default_rng(0))
    kernels = [tuple(leaf.shape[:2]) for leaf in meta.flat.leaves if leaf.ndim == 4]
    assert kernels == [(16, 16), (16, 16), (32, 16), (32, 32), (64, 32)]
    assert meta.run(torch.rand(2, 3, 32, 32))[0].shape == (2, 10)


def test_the_frozen_network_is_not_trained(make_net, source, make_images):
    adapter = adapt(make_net(), "ecotta", source=source, options=OPTIONS)
    body = adapter.method.meta.network.body
    before = {k: v.clone() for k, v in body.state_dict().items()}
    adapter(make_images(32))
    assert all(torch.equal(v, before[k]) for k, v in body.state_dict().items())


def test_loaded_without_source_data_it_goes_on_and_resets(make_net, source, make_images, tmp_path):
    adapter = adapt(make_net(), "ecotta", source=source, options=OPTIONS)
    first = adapter(make_images(32))
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", make_net())
    x = make_images(32, seed=9)
    assert torch.equal(adapter(x), again(x))
    again.reset()
    assert torch.equal(again(make_images(32)), first)


def test_labels_are_needed_and_a_network_over_vectors_is_refused(make_net, make_images):
    with pytest.raises(ValueError, match="needs the labels"):
        adapt(make_net(), "ecotta", source=[(make_images(8), None)])
    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 7), nn.BatchNorm1d(7), nn.Linear(7, 5))
    with pytest.raises(ValueError, match="no block or normalisation layer over images"):
        adapt(flat, "ecotta", source=(make_images(8), torch.zeros(8)))
