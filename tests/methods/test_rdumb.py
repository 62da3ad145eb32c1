"""RDumb: EATA's selection without its penalty, and a reset on schedule (methods.md 3.8)."""

import math

import pytest
import torch

from multipool.methods import adapt

OPTIONS = {"entropy_margin": 0.6, "redundancy": 0.8, "reset_every": 4}


class Literal:
    """ETA with whole-batch indexing, rebuilt from nothing every four batches."""

    def __init__(self, make):
        self.make, self.batches = make, 0
        self.restart()

    def restart(self):
        self.net, self.affine = self.make()
        self.optimizer = torch.optim.Adam(self.affine, lr=1e-3)
        self.average = None

    def __call__(self, x):
        z = self.net(x)
        p = z.softmax(1)
        h = -(p * p.log()).sum(1)
        ids = (h < 0.6 * math.log(5)).nonzero().squeeze(1)
        if self.average is not None:
            cosine = torch.cosine_similarity(self.average[None], p[ids], dim=1)
            ids = ids[cosine.abs() < 0.8]
        if len(ids):
            mean = p[ids].detach().mean(0)
            self.average = mean if self.average is None else 0.9 * self.average + 0.1 * mean
            self.optimizer.zero_grad()
            (h[ids] * torch.exp(0.6 * math.log(5) - h[ids].detach())).mean().backward()
            self.optimizer.step()
        self.batches += 1
        if self.batches % 4 == 0:
            self.restart()
        return z.detach()


def test_ten_steps_do_what_the_definition_does(tiny_net, batch_copy, drift):
    adapter = adapt(tiny_net, "rdumb", guard=False, options=OPTIONS)
    reference = Literal(lambda: batch_copy(tiny_net))
    for x in drift():
        torch.testing.assert_close(adapter(x), reference(x), rtol=2e-4, atol=2e-4)
    now = torch.cat([p.detach() for p in reference.affine])
    torch.testing.assert_close(adapter.method.student.affine, now, rtol=1e-3, atol=1e-4)


def test_it_resets_on_schedule_parameters_optimiser_and_average(tiny_net, make_images):
    adapter = adapt(tiny_net, "rdumb", options=OPTIONS)
    source = adapter.network.source.affine
    for t in range(1, 13):
        adapter(make_images(32, seed=t))
        fresh = t % 4 == 0
        assert torch.equal(adapter.method.student.affine, source) == fresh
        assert (not adapter.method.selection.average.any()) == fresh
        assert (adapter.method.optimizer.state["step"] == 0) == fresh
    assert adapter.counts["updates"] == 12


def test_batches_without_a_good_sample_count_too(tiny_net, make_images):
    adapter = adapt(tiny_net, "rdumb", options={**OPTIONS, "reset_every": 3})
    adapter(make_images(32, seed=1))
    moved = adapter.method.student.affine.clone()
    adapter.method.selection.limit = 0.0  # no sample is reliable any more
    adapter(make_images(32, seed=2))
    assert torch.equal(adapter.method.student.affine, moved)
    adapter(make_images(32, seed=3))
    assert torch.equal(adapter.method.student.affine, adapter.network.source.affine)


def test_a_period_of_no_batches_is_refused(tiny_net):
    with pytest.raises(ValueError, match="at least 1 batch, got 0"):
        adapt(tiny_net, "rdumb", options={"reset_every": 0})
