"""The method on a tiny network: its answers and updates by hand; looking changes nothing."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from multipool.memory import build
from multipool.methods import adapt, load
from multipool.methods.multipool.rules import effective_samples, trust
from multipool.methods.multipool.shares import Shares, shown, unevenness
from multipool.ops import Network

GROWN = {"young": 0, "update_every": 32}  # no pool is young: no image moves its own statistics


def with_statistics(net, statistics):
    """Return a copy of the network in eval mode with other running statistics, ``(S,)``."""
    twin = copy.deepcopy(net).eval()
    at = 0
    for layer in (twin.bn1, twin.bn2, twin.bn3):
        for buffer in (layer.running_mean, layer.running_var):
            buffer.copy_(statistics[at : at + len(buffer)])
            at += len(buffer)
    return twin


class Literal(nn.Module):
    """A BatchNorm layer that moves to the statistics of its images, beside the source's."""

    def __init__(self, layer, own, rate, weights, share):
        super().__init__()
        self.layer, self.own, self.rate = layer, own, rate
        self.weights, self.share = weights, share

    def forward(self, x):
        w = self.weights[:, None]
        mean = (w * x.mean(dim=(2, 3))).sum(dim=0)
        var = (w * (x - mean[:, None, None]).square().mean(dim=(2, 3))).sum(dim=0)
        self.own = (1 - self.rate) * self.own + self.rate * torch.cat([mean, var])
        mean, var = self.own.chunk(2)
        s, layer = self.share, self.layer
        mean, var = (1 - s) * layer.running_mean + s * mean, (1 - s) * layer.running_var + s * var
        return F.batch_norm(x, mean, var, layer.weight, layer.bias, eps=layer.eps)


def literally(net, images, own, rate, weights, share):
    """Return logits by statistics ``own`` ``(S,)`` that images have moved, and those statistics.

    ``share``: the weight of ``own`` in early and late layers.
    """
    twin = copy.deepcopy(net).eval()
    names = zip(("bn1", "bn2", "bn3"), own.split([12, 16, 16]), by_layer(share), strict=True)
    for name, part, one in names:
        setattr(twin, name, Literal(getattr(twin, name), part, rate, weights, one))
    with torch.no_grad():
        logits = twin(images)
    return logits, torch.cat([twin.bn1.own, twin.bn2.own, twin.bn3.own])


def by_layer(share):
    """Return the weights in layers at 0, 1/2 and 1 of the depth: 0.4 is early, 0.8 is late.

    One that is asked what it shows has 0 at the end only: half of the depth is early then.
    """
    early, late = share
    middle = early if late == 0 else early + (0.5 - 0.4) / (0.8 - 0.4) * (late - early)
    return early, middle, late


class Before:
    """A pool as it was before a batch, which is routed before it is answered."""

    def __init__(self, method, pool=0):
        self.method, self.pool, self.own = method, pool, method.own[pool].clone()
        self.counts, self.degree = method.accounts.counts[pool].copy(), method.correlation.degree
        self.known = self.degree * (1 - 8 / max(8, method.correlation.sums[0]))
        self.shown = method.accounts.shown[pool].copy()
        self.gain = float(method.accounts.gains[pool])

    def share(self, more=0.0, shown=0.0, surer=None):
        """Return the trust, by hand, of what was known and ``more``, after the batch was routed."""
        config, method, seen = self.method.config, self.method, self.shown + shown
        surer = self.is_surer(self.gain, seen) if surer is None else surer
        # Samples of one class are half as alike to early layers, and more so to late ones.
        early, late = (
            effective_samples(self.counts + more, times * config.likeness * self.degree)
            for times in ((0.5, 1.5) if surer else (1.0, 1.0))
        )
        centre = method.router.centres[self.pool] @ method.router._whitener()
        shift = (centre**2).mean() - 1 / method.router.weights[self.pool]
        shift = shift if method.router.covariance.any() else 1.0
        # In late layers classes shown unevenly are an error of their own.
        late = 1 / (1 / late + 16 * (1 - self.known) * unevenness(seen))
        early, late = trust(early, shift, config.prior), trust(late, shift, config.prior)
        return (early if surer else late), late

    def unlayered(self, more):
        """Return the trust of early layers in classes that nobody knows yet."""
        return self.share(more, -self.shown, surer=False)[0]

    def is_surer(self, gain, seen):
        """Tell whether early layers make it surer: a fiftieth may be lost, nothing in runs."""
        return gain >= -0.02 * (1 - self.known) * seen[:5].sum()

    def mixed(self, share=None):
        """Return what the pool normalises with: (1 - trust) source + trust its own."""
        parts = zip(self.method.home.split([12, 16, 16]), self.own.split([12, 16, 16]), strict=True)
        shares = by_layer(self.share() if share is None else share)
        return torch.cat([torch.lerp(*p, s) for p, s in zip(parts, shares, strict=True)])


def equal_states(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_a_batch_of_one_pool_is_an_eval_pass_with_its_statistics(make_net, stream):
    adapter = adapt(make_net(), decode="none", options={**GROWN, "prior": 1.0})
    batches = stream(3)
    adapter(batches[0])
    adapter(batches[1])
    method = adapter.method
    assert (method.own[0] - method.home).abs().max() > 0.05
    before = Before(method)
    found = adapter(batches[2])
    with torch.no_grad():
        expected = with_statistics(make_net(), before.mixed())(batches[2])
        assert not torch.allclose(expected, make_net()(batches[2]), atol=0.05)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_batch_of_two_pools_has_for_each_image_the_statistics_of_its_own(make_net, stream):
    adapter = adapt(make_net(), decode="none", options={**GROWN, "prior": 1.0})
    batches = stream(6)
    for x in batches:
        adapter(x)
    plain, striped = batches[1][:20], batches[4][:20]
    before = [Before(adapter.method, pool) for pool in (1, 0)]
    found = adapter(torch.cat([striped, plain]))
    expected = []
    with torch.no_grad():
        for pool, images in zip(before, (striped, plain), strict=True):
            expected.append(with_statistics(make_net(), pool.mixed())(images))
    torch.testing.assert_close(found, torch.cat(expected), rtol=1e-4, atol=1e-4)


def test_a_young_pool_answers_with_statistics_that_the_batch_has_moved(make_net, stream):
    adapter, net = adapt(make_net(), decode="none"), make_net()
    for t, x in enumerate(stream(3)):
        before = Before(adapter.method)
        found = adapter(x)
        # Classes are asked with the source's statistics in late layers.
        rate, even = 1 / (1 + t), torch.full((64,), 1 / 64)
        asked = before.unlayered(64 / 5), 0.0
        likely = literally(net, x, before.own, rate, even, asked)[0].double().softmax(dim=1)
        labels = likely.argmax(dim=1)
        counts = torch.bincount(labels, minlength=5)
        # Every class counts the same in a correlated stream, every image in another.
        weights = (1 / counts[labels].float()) ** before.degree
        weights, here = weights / weights.sum(), shown(likely.numpy()).sum(axis=0)
        shares = [before.share(counts.double().numpy(), here, surer) for surer in (True, False)]
        both = [literally(net, x, before.own, rate, weights, share)[0] for share in shares]
        own, plain = (logits.softmax(dim=1).amax(dim=1).sum() for logits in both)
        surer = before.is_surer(before.gain + float(own - plain), before.shown + here)
        expected = both[0] if surer else both[1]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("known", [0.0, -1000.0, 1000.0])
def test_few_classes_are_answered_with_whichever_statistics_make_it_surer(
    make_net, make_images, monkeypatch, seed, known
):
    adapter, net, x = adapt(make_net(), decode="none"), make_net(), make_images(64, seed=seed)
    adapter(make_images(64, seed=99))
    before, method = Before(adapter.method), adapter.method
    method.accounts.gains[0] = known
    two = {True: Shares(0.9, 0.2), False: Shares(0.3, 0.3)}
    monkeypatch.setattr(method, "trusted", lambda *given, surer=True: two[surer])
    even = torch.full((64,), 1 / 64)
    early = before.unlayered(64 / 5)
    with torch.no_grad():
        found = method.predict(x)
    if len(found.route.events):
        pytest.skip("the images begin a pool of their own")
    labels = literally(net, x, before.own, 0.5, even, (early, 0.0))[0].argmax(dim=1)
    weights = (1 / torch.bincount(labels, minlength=5)[labels].float()) ** before.degree
    weights = weights / weights.sum()
    both = [literally(net, x, before.own, 0.5, weights, s)[0] for s in two.values()]
    own, plain = (logits.softmax(dim=1).amax(dim=1).sum() for logits in both)
    _, gain = found.shown[0]
    assert gain == pytest.approx(float(own - plain), abs=1e-3)
    seen = before.shown[:5].sum() + 64
    assert seen == pytest.approx(128)
    surer = known + gain >= -0.02 * (1 - before.known) * seen
    expected = both[0] if surer else both[1]
    torch.testing.assert_close(found.logits, expected, rtol=1e-4, atol=1e-4)
    assert method.accounts.gains[0] == known  # nothing is kept before it is learned from
    adapter(x)
    assert method.accounts.gains[0] == pytest.approx(known + gain, rel=1e-6, abs=1e-3)


def test_an_older_pool_of_few_classes_asks_its_bank_whether_it_is_surer(make_net, stream):
    adapter = adapt(make_net(), decode="none", options={**GROWN, "lr": 0.0})
    method, x = adapter.method, stream(1)[0]
    adapter(x)
    stored = method.images_of(adapter.memory.retrieve(None))
    count = len(stored) - 2  # a bank that is not full is filled up
    stands = np.linspace(0.5, 1.5, count)
    method.correlation.sums[:] = 8.0, 0.0  # in random order
    method.accounts.uneven[0] = 0.0
    assert method.gain(0, stored, stands) == 0.0  # where all classes are shown nobody asks
    method.accounts.uneven[0] = 0.8
    now = Before(method)
    method.accounts.gains[0] = -1.0  # what was known does not decide what is asked
    early, late = now.share(shown=-now.shown)[0], method.known_trust(0, method.router).late
    assert late < early
    sure = []
    for share in ((early, late), (late, late)):
        with torch.no_grad():
            likely = with_statistics(make_net(), now.mixed(share))(stored[:count]).softmax(dim=1)
        sure.append(likely.amax(dim=1).double().numpy())
    expected = float(stands @ (sure[0] - sure[1]))
    assert abs(expected) > 1e-3
    assert method.gain(0, stored, stands) == pytest.approx(expected, abs=1e-4)


def test_in_runs_early_layers_trust_a_pool_more_and_late_ones_less_unless_it_is_less_sure(
    make_net, stream
):
    adapter = adapt(make_net(), decode="none", options=GROWN)
    method = adapter.method
    adapter(stream(1)[0])
    counts, router = np.array([50.0, 10.0, 4.0, 0.0, 0.0]), method.router
    method.accounts.counts[0], method.accounts.uneven[0] = counts, 0.0
    for r, runs in ((0.0, False), (0.3, True)):
        method.correlation.sums[:] = 1000.0, 1000.0 * r
        found = [method.trusted(0, counts, 0.0, router, surer) for surer in (True, False)]
        middle = trust(effective_samples(counts, 0.6 * runs), router.shift(0), 16.0)
        assert found[1] == (middle, middle)
        assert (found[0].early > middle > found[0].late) == runs
        assert (found[0] == found[1]) == (not runs)
    for gain, expected in ((0.0, found[0]), (-0.5, found[1])):
        method.accounts.gains[0] = gain
        assert method.known_trust(0, router) == expected


def test_a_pool_that_takes_the_place_of_another_starts_from_the_source(make_net, stream):
    options = {"most": 1, "young": 0, "update_every": 64}
    adapter = adapt(make_net(), decode="none", options=options)
    batches, method = stream(4), adapter.method
    for x in batches[:3]:
        adapter(x)
    assert not torch.equal(method.own[0], method.home)
    adapter(batches[3][:48])  # too few for an update
    assert torch.equal(method.own[0], method.home)
    assert method.accounts.counts[0].sum() == 48
    stored = adapter.memory.retrieve(None).images
    assert (stored[:, :, :, ::2] >= 0.69).all(), "images of the pool before are left"
    (pool,) = adapter.pools
    assert pool.samples == 48
    assert pool.share == pytest.approx(48 / 240)


def test_updates_move_the_statistics_to_the_banks_as_a_mean_at_first(make_net, stream):
    bank = build("fifo", 5, capacity=20)
    adapter, net = adapt(make_net(), memory=bank, decode="none"), make_net()
    method, even = adapter.method, torch.full((20,), 1 / 20)
    own = method.home
    for t, x in enumerate(stream(3)):
        adapter(x)
        share = Before(method).share()
        _, own = literally(net, x[-20:], own, 1 / (1 + t), even, share)
        torch.testing.assert_close(method.own[0], own, rtol=1e-4, atol=1e-4)
    assert torch.equal(method.own[1], method.home)


def test_an_old_pool_moves_by_the_least_rate(make_net, stream):
    adapter = adapt(make_net(), memory=build("fifo", 5, capacity=20), options={"rate": 0.4})
    batches, method = stream(3), adapter.method
    for x in batches:
        before = method.own[0].clone()
        adapter(x)
    share = Before(method).share()
    even = torch.full((20,), 1 / 20)
    _, expected = literally(make_net(), batches[2][-20:], before, 0.4, even, share)
    torch.testing.assert_close(method.own[0], expected, rtol=1e-4, atol=1e-4)


def test_an_older_pool_asks_its_bank_what_it_shows_at_every_eighth_update(make_net, stream):
    bank, options = build("fifo", 5, capacity=20), {**GROWN, "lr": 0.0}
    adapter = adapt(make_net(), memory=bank, decode="none", options=options)
    method, shown = adapter.method, []
    batches = [x for _ in range(3) for x in stream(3)]  # all of one domain
    for x in batches:
        adapter(x)
        shown.append(method.accounts.shown[0].copy())
    # The images with which it began, and then the bank's.
    assert [s[:5].sum() for s in shown] == pytest.approx([64] * 8 + [84])
    now = Before(method)
    asked = with_statistics(make_net(), now.mixed((now.share()[0], 0.0)))
    with torch.no_grad():
        likely = asked(batches[8][-20:]).double().softmax(dim=1).numpy()
    # A sample stands for the images of its class, of which the bank may hold few.
    labels = bank.retrieve(None).labels.numpy()
    held = np.bincount(labels, minlength=5)
    times = np.array([method.accounts.counts[0][label] / held[label] for label in labels])
    doubt, squares = -(likely * np.log(likely)).sum(axis=1), (likely**2).sum(axis=1)
    expected = (times / times.sum() * 20) @ np.column_stack([likely, doubt, squares])
    assert shown[8] - shown[7] == pytest.approx(expected, abs=1e-3)


def test_merged_pools_share_statistics_by_updates_and_counts_by_sum(make_net, stream):
    adapter = adapt(make_net(), decode="none", options=GROWN)
    method, batches = adapter.method, stream(9)
    for x in (*batches[:5], batches[6]):
        adapter(x)
    updates, counts = method.accounts.updates[:2].tolist(), method.accounts.counts[:2].copy()
    assert updates == [4, 2]
    expected = (4 * method.own[0] + 2 * method.own[1]) / 6
    method.router.centres[1] = method.router.centres[0]
    adapter(batches[7][:8])  # too few for an update
    torch.testing.assert_close(method.own[0], expected)
    assert method.accounts.updates[:2].tolist() == [6, 0]
    assert method.accounts.counts[0].sum() == counts.sum() + 8
    assert len(method.banks()["bank1"]) == 0
    (pool,) = adapter.pools
    assert pool.samples == 6 * 64 + 8
    assert adapter.method.facts()["merged"] == 1


@pytest.mark.parametrize("decode", ["none", "sequence"])
def test_looking_changes_nothing(make_net, stream, decode):
    adapter, other = (adapt(make_net(), decode=decode) for _ in range(2))
    for x in stream(5):
        before = adapter.state_dict()
        first, again = adapter.predict(x), adapter.predict(x)
        assert torch.equal(first, again)
        assert equal_states(before, adapter.state_dict())
        answer = adapter(x)
        assert torch.equal(first, answer)
        assert torch.equal(answer, other(x))


@pytest.mark.parametrize("size", [7, 64])
def test_saved_and_loaded_it_goes_on_with_router_and_banks(make_net, stream, tmp_path, size):
    adapter = adapt(make_net(), seed=3)
    batches = stream(9, size)
    for x in batches[:5]:
        adapter(x)
    adapter.save(tmp_path / "state.safetensors")
    saved = adapter.state_dict()
    assert {"router.centres", "accounts.counts", "pools.statistics"} <= saved.keys()
    assert any(name.startswith("bank1.") for name in saved)
    again = load(tmp_path / "state.safetensors", make_net())
    assert again.pools == adapter.pools
    for x in batches[5:]:
        assert torch.equal(adapter(x), again(x))
    assert equal_states(adapter.state_dict(), again.state_dict())


def test_a_bad_router_is_refused_and_no_bank_has_changed(make_net, stream):
    adapter = adapt(make_net())
    early = adapter.state_dict()
    for x in stream(2):
        adapter(x)
    before = adapter.state_dict()
    early["router.numbers"] = torch.tensor([0, 99, 0, 0, 0])
    with pytest.raises(ValueError, match="names a pool that it does not have"):
        adapter.load_state_dict(early)
    assert equal_states(before, adapter.state_dict())


def test_reset_is_the_beginning(make_net, stream):
    adapter = adapt(make_net())
    empty = adapter.state_dict()
    first = [adapter(x) for x in stream(5)]
    adapter.reset()
    assert equal_states(empty, adapter.state_dict())
    assert adapter.pools == []
    assert all(torch.equal(a, adapter(x)) for a, x in zip(first, stream(5), strict=True))


def test_the_model_is_left_alone(make_net, stream):
    net = make_net()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    adapter = adapt(net)
    source = Network(net).fingerprint()
    for x in stream(3):
        adapter(x)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert equal_states(source, adapter.network.fingerprint())
