"""MemBN: queue, source's share and resets, one batch and one layer at a time."""

import pytest
import torch
from torch import nn

from multipool.methods import adapt


class Literal(nn.Module):
    """One layer as the figure and the first author's code have it, with lists for queues."""

    def __init__(self, layer, peers, capacity, threshold, corrected):
        super().__init__()
        self.layer, self.capacity, self.threshold = layer, capacity, threshold
        self.corrected, self.queue, self.resets = corrected, [], 0
        self.__dict__["peers"] = peers  # not submodules: every layer knows all
        peers.append(self)

    def forward(self, x):
        m, v = x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3), correction=0)
        self.queue = [*self.queue, (m, v)][-self.capacity :]
        means, variances = (torch.stack(part) for part in zip(*self.queue, strict=True))
        mean, var = means.mean(0), variances.mean(0)
        if self.corrected:
            var = var + (means**2).mean(0) - mean**2
        source = self.layer.running_mean, self.layer.running_var
        near = (m - mean).norm() + (v - var).norm()
        far = (m - source[0]).norm() + (v - source[1]).norm()
        alpha = 0.5 if len(self.queue) == 1 else near / (near + far)
        if len(self.queue) > 10 or len(self.queue) == self.capacity:
            self.watch(m, v, means, variances, mean, var)
        mixed = alpha * source[0] + (1 - alpha) * mean
        spread = alpha * source[1] + (1 - alpha) * var
        if self.corrected:
            spread = spread + alpha * (1 - alpha) * (source[0] - mean) ** 2
        scale = self.layer.weight / (spread + self.layer.eps).sqrt()
        return (x - mixed[:, None, None]) * scale[:, None, None] + self.layer.bias[:, None, None]

    def watch(self, m, v, means, variances, mean, var):
        for own, rows, centre in ((m, means, mean), (v.sqrt(), variances.sqrt(), var.sqrt())):
            distances = torch.stack([(row - centre).norm() for row in rows])
            z = ((own - centre).norm() - distances.mean()) / distances.std()
            if abs(z) > self.threshold:
                self.resets += 1
                for peer in self.peers:
                    peer.queue = []


def literal_of(net, capacity=128, threshold=3.0, corrected=False):
    peers = []
    for name in ("bn1", "bn2", "bn3"):
        layer = Literal(getattr(net, name), peers, capacity, threshold, corrected)
        setattr(net, name, layer)
    return net, peers


def two_domains(make_images, steps, size=16):
    """Return a stream whose second half is darker, with flatter contrast."""
    first = [make_images(size, seed=t) for t in range(steps)]
    return first + [0.1 + 0.3 * make_images(size, seed=1000 + t) for t in range(steps)]


@torch.no_grad()
@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("capacity", [128, 4])
def test_a_stream_of_two_domains_is_normalised_as_the_equations_say(
    make_net, make_images, capacity, corrected
):
    options = {"capacity": capacity, "corrected": corrected, "threshold": 2.5}
    adapter = adapt(make_net(), "membn", guard=False, options=options)
    net, layers = literal_of(make_net(), capacity, 2.5, corrected)
    for x in two_domains(make_images, 14):
        torch.testing.assert_close(adapter(x), net(x), rtol=2e-4, atol=2e-4)
        held = adapter.method.counts.clamp(max=capacity).tolist()
        assert held == [len(layer.queue) for layer in layers]
    if capacity > 10:
        assert sum(layer.resets for layer in layers) > 0, "no domain was told"


def test_another_domain_empties_every_queue(make_net, make_images):
    adapter = adapt(make_net(), "membn", guard=False, options={"threshold": 3.0})
    stream = two_domains(make_images, 14, size=64)
    for x in stream[:14]:
        adapter(x)
    assert adapter.method.counts.min() == 14
    adapter(stream[14])
    assert adapter.method.counts.max() <= 1


def test_a_queue_of_one_is_the_batch_alone(make_net, make_images):
    x = make_images(32)
    queue, bn = adapt(make_net(), "membn", options={"capacity": 1}), adapt(make_net(), "bn")
    for _ in range(2):
        torch.testing.assert_close(queue(x), bn(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_small_batches_come_to_share_the_statistics_of_a_large_one(make_net, make_images):
    """The point of the method: after many single images, one is normalised as if in a batch."""
    images = make_images(128)
    whole = adapt(make_net(), "bn").predict(images)
    adapter = adapt(make_net(), "membn", guard=False, options={"corrected": True, "threshold": 1e9})
    alone = adapter(images[:1])
    for start in range(1, 128):
        last = adapter(images[start : start + 1])
    gap = (last - whole[-1:]).norm()
    assert gap < (adapt(make_net(), "bn").predict(images[-1:]) - whole[-1:]).norm()
    assert torch.isfinite(alone).all()


def test_looking_keeps_nothing_and_says_what_the_next_call_says(make_net, make_images):
    adapter = adapt(make_net(), "membn")
    x = make_images(32)
    looked = adapter.predict(x)
    assert adapter.method.counts.max() == 0
    assert torch.equal(adapter(x), looked)
    assert adapter.method.counts.min() == 1


def test_one_dimensional_layers_keep_the_sources_statistics(make_images):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 7), nn.BatchNorm1d(7), nn.Linear(7, 5)).eval()
    adapter, x = adapt(net, "membn"), make_images(16)
    for _ in range(2):
        torch.testing.assert_close(adapter(x), net(x).detach())


@pytest.mark.parametrize("options", [{"capacity": 0}, {"threshold": 0.0}, {"patience": -1}])
def test_settings_without_meaning_are_refused(make_net, options):
    with pytest.raises(ValueError, match="membn"):
        adapt(make_net(), "membn", options=options)
