"""ROID against methods.md 3.9."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.core import numpy_generator, torch_generator
from multipool.methods import adapt
from multipool.methods.roid import diversity_weights, prior_correction, soft_likelihood_ratio
from multipool.ops import Group, View
from multipool.ops.masked import MaskedBatch

SEED = 3


def cross_entropy(p, z):
    return -(p * z.log_softmax(1)).sum(1)


class Literal:
    def __init__(self, net, affine, batch_size):
        self.net, self.affine, self.batch_size = net, affine, batch_size
        self.start = [p.detach().clone() for p in affine]
        self.optimizer = torch.optim.Adam(affine, lr=1e-3)
        self.average = torch.full((5,), 0.2)
        self.draws, self.noise = numpy_generator(SEED, "draws", "roid"), torch_generator(SEED)

    def weights(self, z):
        d = 1 - torch.cosine_similarity(self.average[None], z.softmax(1), dim=1)
        d = (d - d.min()) / (d.max() - d.min())
        mask = d < d.mean()
        e = (z.softmax(1) * z.log_softmax(1)).sum(1)
        e = (e - e.min()) / (e.max() - e.min())
        return torch.exp(d * e / (1 / 3)), mask

    def __call__(self, x):
        z = self.net(x)
        with torch.no_grad():
            w, mask = self.weights(z)
            self.average = 0.9 * self.average + 0.1 * z.softmax(1).mean(0)
            view = View(reflect=True)(x[~mask], self.draws, self.noise)
        q = z.softmax(1).clamp(max=0.99)
        slr = -(q * torch.log(q / (1 - q) + 1e-5)).sum(1)
        loss = (w * slr)[~mask].sum() / self.batch_size
        a, b = self.net(view), z[~mask]
        sce = 0.5 * cross_entropy(b.softmax(1), a) + 0.5 * cross_entropy(a.softmax(1), b)
        loss = loss + (w[~mask] * sce).sum() / self.batch_size
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for p, p0 in zip(self.affine, self.start, strict=True):
                p.copy_(0.99 * p + 0.01 * p0)
            prior = z.softmax(1).mean(0)
            smooth = max(1 / len(x), 1 / 5) / prior.max()
            return z * (prior + smooth) / (1 + smooth * 5)


def test_ten_steps_do_what_the_definition_does(tiny_net, batch_copy, drift, assert_follows):
    net, affine = batch_copy(tiny_net)
    adapter = adapt(tiny_net, "roid", seed=SEED, guard=False, options={"batch_size": 32})
    reference = Literal(net, affine, 32)
    assert_follows(adapter, reference, drift(), affine)
    torch.testing.assert_close(adapter.method.average, reference.average, rtol=1e-3, atol=1e-5)


def test_masking_the_second_pass_is_the_same_as_picking_its_images(tiny_net, drift, monkeypatch):
    picked, masked = (adapt(tiny_net, "roid", seed=SEED, guard=False) for _ in range(2))

    def masking(view, wanted):
        return masked.network.run(Group(view, masked.method.student, MaskedBatch(wanted)))[0]

    monkeypatch.setattr(masked.method, "view_logits", masking)
    for x in [*drift(), drift(1, 3)[0]]:
        torch.testing.assert_close(masked(x), picked(x), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(
        masked.method.student.affine, picked.method.student.affine, rtol=1e-3, atol=1e-4
    )


def test_each_step_ends_with_one_part_in_a_hundred_of_the_source(tiny_net, make_images):
    adapter = adapt(tiny_net, "roid", options={"source_pull": 1.0})
    adapter(make_images(32))
    torch.testing.assert_close(adapter.method.student.affine, adapter.network.source.affine)
    adapter = adapt(tiny_net, "roid", options={"source_pull": 0.0})
    adapter(make_images(32))
    free = adapter.method.student.affine - adapter.network.source.affine
    adapter = adapt(tiny_net, "roid")
    adapter(make_images(32))
    pulled = adapter.method.student.affine - adapter.network.source.affine
    torch.testing.assert_close(pulled, 0.99 * free, rtol=1e-3, atol=1e-6)


def test_a_batch_of_one_or_of_equal_images_is_predicted_and_changes_nothing(tiny_net, make_images):
    adapter = adapt(tiny_net, "roid")
    adapter(make_images(32))
    before = adapter.state_dict()
    one = make_images(1, seed=4)
    for x in (one, one.expand(6, -1, -1, -1)):
        assert adapter(x).isfinite().all()
    after = adapter.state_dict()
    same = {k for k in before if torch.equal(before[k], after[k])}
    counted = {"number.seen", "number.updates", "number.batches"}
    assert before.keys() - same == {*counted, "generator.draws"}
    assert adapter.counts["skipped"] == 0


def test_predict_gives_the_corrected_logits(tiny_net, make_images):
    adapter = adapt(tiny_net, "roid")
    expected = adapter.predict(make_images(32))
    torch.testing.assert_close(adapter(make_images(32)), expected)


def logits(count, classes, seed=0, scale=2.0):
    g = torch.Generator().manual_seed(seed)
    return scale * torch.randn(count, classes, generator=g, dtype=torch.float64)


def test_the_loss_of_an_even_chance_is_nothing_and_of_certainty_capped():
    even = torch.zeros(1, 2, dtype=torch.float64)
    assert float(soft_likelihood_ratio(even)) == pytest.approx(-math.log(1 + 1e-5))
    sure = torch.tensor([[100.0, 0.0]], dtype=torch.float64)
    assert float(soft_likelihood_ratio(sure)) == pytest.approx(-0.99 * math.log(99 + 1e-5))


def test_a_sample_beyond_the_cap_gets_no_gradient_a_confident_one_does():
    z = torch.tensor([[12.0, 0.0], [4.0, 0.0]], requires_grad=True)
    slope = torch.autograd.grad(soft_likelihood_ratio(z).sum(), z)[0].abs().amax(1)
    assert slope[0] < 1e-3 < slope[1]


@given(st.integers(2, 12), st.integers(2, 6), st.integers(0, 30))
def test_weights_follow_their_definition(count, classes, seed):
    z, average = logits(count, classes, seed), torch.full((classes,), 1 / classes).double()
    got = diversity_weights(z, average, 1 / 3)
    p = z.softmax(1)
    d = [1 - float(average @ q / (average.norm() * q.norm())) for q in p]
    e = [float((q * q.log()).sum()) for q in p]
    d = [(v - min(d)) / (max(d) - min(d)) for v in d]
    e = [(v - min(e)) / (max(e) - min(e)) for v in e]
    mean = sum(d) / len(d)
    for i in range(count):
        if abs(d[i] - mean) < 1e-9:
            continue  # on the edge rounding decides
        assert float(got[i]) == pytest.approx(math.exp(3 * d[i] * e[i]) if d[i] > mean else 0.0)


@pytest.mark.parametrize("z", [logits(1, 4), logits(1, 4).expand(5, 4), torch.zeros(3, 4)])
def test_a_batch_without_spread_has_no_weight(z):
    average = torch.full((4,), 0.25, dtype=z.dtype)
    assert not diversity_weights(z, average, 1 / 3).any()


def test_the_prior_by_hand():
    z = torch.tensor([[2.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    p = 1 / (1 + math.exp(-2.0))
    s = 0.5 / p
    expected = 2.0 * (p + s) / (1 + 2 * s)
    torch.testing.assert_close(prior_correction(z)[:, 0], torch.full((2,), expected).double())


@given(st.integers(1, 9), st.integers(2, 7), st.integers(0, 20))
def test_the_prior_sums_to_one_and_prefers_the_commonest_class(count, classes, seed):
    z = logits(count, classes, seed)
    factors = (prior_correction(z) / z)[0]
    assert float(factors.sum()) == pytest.approx(1.0)
    assert int(factors.argmax()) == int(z.softmax(1).mean(0).argmax())
