"""ROID against methods.md 3.9."""

import torch

from multipool.core import numpy_generator, torch_generator
from multipool.methods import adapt
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
    torch.testing.assert_close(adapter.average, reference.average, rtol=1e-3, atol=1e-5)


def test_masking_the_second_pass_is_the_same_as_picking_its_images(tiny_net, drift, monkeypatch):
    picked, masked = (adapt(tiny_net, "roid", seed=SEED, guard=False) for _ in range(2))

    def masking(view, wanted):
        return masked.network.run(Group(view, masked.student, MaskedBatch(wanted)))[0]

    monkeypatch.setattr(masked, "_view_logits", masking)
    for x in [*drift(), drift(1, 3)[0]]:
        torch.testing.assert_close(masked(x), picked(x), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(masked.student.affine, picked.student.affine, rtol=1e-3, atol=1e-4)


def test_each_step_ends_with_one_part_in_a_hundred_of_the_source(tiny_net, make_images):
    adapter = adapt(tiny_net, "roid", options={"source_pull": 1.0})
    adapter(make_images(32))
    torch.testing.assert_close(adapter.student.affine, adapter.network.source.affine)
    adapter = adapt(tiny_net, "roid", options={"source_pull": 0.0})
    adapter(make_images(32))
    free = adapter.student.affine - adapter.network.source.affine
    adapter = adapt(tiny_net, "roid")
    adapter(make_images(32))
    pulled = adapter.student.affine - adapter.network.source.affine
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
