"""EATA against methods.md 3.12: which samples count, how much, and the Fisher penalty."""

import math

import pytest
import torch
from torch.nn import functional as F

from multipool.core import ImageSet
from multipool.methods import adapt, load
from multipool.methods.eata import fisher_pull

OPTIONS = {
    "entropy_margin": 0.6,
    "redundancy": 0.8,
    "fisher_weight": 50.0,
    "fisher_images": 80,
    "fisher_batch": 32,
}


def literal_fisher(net, affine, source, size):
    """Mean over batches of the squared gradient of the batch's mean cross-entropy."""
    parts = source.split(size)
    total = [torch.zeros_like(p) for p in affine]
    for x in parts:
        z = net(x)
        grads = torch.autograd.grad(F.cross_entropy(z, z.argmax(1)), affine)
        total = [t + g**2 / len(parts) for t, g in zip(total, grads, strict=True)]
    return total


class Literal:
    """One batch after another, sample by sample."""

    def __init__(self, net, affine, fisher=None, weight=0.0, redundancy=0.8, margin=0.6):
        self.net, self.affine, self.fisher, self.weight = net, affine, fisher, weight
        self.start = [p.detach().clone() for p in affine]
        self.optimizer = torch.optim.Adam(affine, lr=1e-3)
        self.average, self.limit, self.redundancy = None, margin * math.log(5), redundancy
        self.counts = []

    def __call__(self, x):
        z = self.net(x)
        p, kept = z.softmax(1), []
        for i in range(len(x)):
            h = -(p[i] * p[i].log()).sum()
            if h >= self.limit:
                continue
            if self.average is not None:
                cosine = self.average @ p[i] / (self.average.norm() * p[i].norm())
                if abs(cosine) >= self.redundancy:
                    continue
            kept.append(i)
        self.counts.append(len(kept))
        if kept:
            mean = p[kept].detach().mean(0)
            self.average = mean if self.average is None else 0.9 * self.average + 0.1 * mean
            h = -(p[kept] * p[kept].log()).sum(1)
            loss = (torch.exp(self.limit - h.detach()) * h).mean()
            if self.fisher is not None:
                for f, q, q0 in zip(self.fisher, self.affine, self.start, strict=True):
                    loss = loss + self.weight * (f * (q - q0) ** 2).sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return z.detach()


def test_ten_steps_do_what_the_definition_does(
    tiny_net, batch_copy, drift, make_images, assert_follows
):
    source = make_images(120, seed=9)
    net, affine = batch_copy(tiny_net)
    fisher = literal_fisher(net, affine, source[:80], 32)
    adapter = adapt(tiny_net, "eata", source=[(source, None)], guard=False, options=OPTIONS)
    torch.testing.assert_close(adapter.method.fisher, torch.cat(fisher), rtol=1e-3, atol=1e-7)
    reference = Literal(net, affine, fisher, 50.0)
    assert_follows(adapter, reference, drift(), affine)
    assert 0 < sum(reference.counts) < 290, "the filters were not put to the test"
    torch.testing.assert_close(
        adapter.method.selection.average, reference.average, rtol=1e-3, atol=1e-5
    )


def test_fisher_weights_do_not_depend_on_how_the_source_is_batched(tiny_net, make_images):
    images, labels = make_images(90, seed=9), torch.zeros(90, dtype=torch.long)
    odd = [(images[:7], None), (images[7:50], None), (images[50:], None)]
    forms = [odd, (images, labels), ImageSet(images, labels, "clean"), [images]]
    found = [adapt(tiny_net, "eata", source=s, options=OPTIONS).method.fisher for s in forms]
    assert all(torch.equal(f, found[0]) for f in found)
    assert found[0].max() > 0


@pytest.mark.parametrize(
    "options", [{"entropy_margin": 1e-6}, {"redundancy": 1e-9, "entropy_margin": 1.0}]
)
def test_a_batch_with_nothing_to_learn_from_moves_nothing(tiny_net, make_images, options):
    adapter = adapt(tiny_net, "eata", source=[make_images(64, seed=9)], options=options)
    adapter(make_images(32, seed=1))  # with a redundancy the first batch sets the average
    before = adapter.state_dict()
    adapter(make_images(32, seed=2))
    after = adapter.state_dict()
    same = {k for k in before if torch.equal(before[k], after[k])}
    assert before.keys() - same == {"number.seen", "number.updates", "number.batches"}


def test_the_penalty_holds_back_what_matters(tiny_net, make_images):
    free, held = (
        adapt(
            tiny_net,
            "eata",
            source=[make_images(64, seed=9)],
            options={**OPTIONS, "redundancy": 1.1, "fisher_weight": w, "lr": 1e-2},
        )
        for w in (0.0, 500.0)
    )
    for t in range(20):
        free(make_images(32, seed=t))
        held(make_images(32, seed=t))
    way = [
        (a.method.fisher * (a.method.student.affine - a.method.anchor.affine) ** 2).sum()
        for a in (free, held)
    ]
    assert way[1] < 0.5 * way[0]


def test_it_needs_source_images_and_says_so(tiny_net, make_images, tmp_path):
    for source, got in ((None, "got nothing"), ("a-file.safetensors", "got str")):
        with pytest.raises(ValueError, match=f"'eata' needs source images.* {got}"):
            adapt(tiny_net, "eata", source=source)
    with pytest.raises(ValueError, match="at least 1 image"):
        adapt(tiny_net, "eata", source=[])


def test_a_saved_adapter_needs_its_source_no_more(tiny_net, make_images, tmp_path):
    adapter = adapt(tiny_net, "eata", source=[make_images(64, seed=9)], options=OPTIONS)
    adapter(make_images(32))
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", tiny_net)
    assert torch.equal(again(make_images(32, seed=1)), adapter(make_images(32, seed=1)))


def test_the_pulls_gradient_is_autograds():
    g = torch.Generator().manual_seed(0)
    values, anchor, weights = (torch.rand(9, generator=g, dtype=torch.float64) for _ in range(3))
    values.requires_grad_()
    value, slope = fisher_pull(values, anchor, weights)
    expected = sum(w * (v - a) ** 2 for w, v, a in zip(weights, values, anchor, strict=True))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(slope, torch.autograd.grad(expected, values)[0])
