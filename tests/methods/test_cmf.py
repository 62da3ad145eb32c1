"""CMF's filter against its equations; the loss is ROID's and tested there."""

import copy

import pytest
import torch
from test_roid import Literal as LiteralROID

from kinds import make_kind_net
from multipool.core import numpy_generator
from multipool.methods import adapt
from multipool.methods.cmf import filtered

SEED = 3


class Literal(LiteralROID):
    """ROID's step without its pull, then predict, update and ensemble, tensor by tensor."""

    def __init__(self, net, affine, batch_size, process_noise):
        super().__init__(net, affine, batch_size)
        self.draws = numpy_generator(SEED, "draws", "cmf")
        self.hidden = [p.clone() for p in self.start]
        self.variance, self.shares = 0.0, []
        self.q = process_noise * sum(p.numel() for p in affine) / 38400

    def __call__(self, x):
        answers = super().__call__(x)
        with torch.no_grad():
            for p, p0 in zip(self.affine, self.start, strict=True):
                p.copy_((p - 0.01 * p0) / 0.99)  # undo ROID's pull
        variance = 0.99**2 * self.variance + self.q
        beta = (1 - self.q) / (variance + (1 - self.q))
        beta = max(beta, 0.89)
        beta = beta if beta < 0.9999 else 1.0
        self.variance = beta * variance
        self.shares.append(beta)
        with torch.no_grad():
            for p, p0, h in zip(self.affine, self.start, self.hidden, strict=True):
                h.copy_(0.99 * h + 0.01 * p0)
                h.copy_(beta * h + (1 - beta) * p)
                p.copy_(0.99 * p + 0.01 * h)
        return answers


def test_ten_steps_do_what_the_definition_does(tiny_net, batch_copy, drift, assert_follows):
    net, affine = batch_copy(tiny_net)
    options = {"batch_size": 32, "process_noise": 5.0}  # 44 parameters: q = 0.0057
    adapter = adapt(tiny_net, "cmf", seed=SEED, guard=False, options=options)
    reference = Literal(net, affine, 32, 5.0)
    assert_follows(adapter, reference, drift(), affine)
    assert min(reference.shares) > 0.89, "the filter was at its limit"
    assert reference.shares == sorted(reference.shares, reverse=True)
    assert float(adapter.method.variance) == pytest.approx(reference.variance, rel=1e-4)
    hidden = torch.cat(reference.hidden)
    torch.testing.assert_close(adapter.method.hidden, hidden, rtol=1e-3, atol=1e-4)
    assert (hidden - adapter.network.source.affine).abs().max() > 1e-5


def test_layers_without_statistics_are_filtered_too(drift, assert_follows):
    model = make_kind_net("groupnorm")
    net = copy.deepcopy(model).requires_grad_(False)
    affine = [p.requires_grad_() for name, p in net.named_parameters() if "norm" in name]
    options = {"batch_size": 32, "process_noise": 5.0}
    adapter = adapt(model, "cmf", seed=SEED, guard=False, options=options)
    assert_follows(adapter, Literal(net, affine, 32, 5.0), drift(), affine)


def test_the_filter_by_hand():
    variance, kept = filtered(torch.tensor(0.5), 0.2, 0.9)
    assert float(kept) == pytest.approx(0.89)  # 0.8 / (0.605 + 0.8) is less
    assert float(variance) == pytest.approx(0.89 * 0.605)
    variance, kept = filtered(torch.tensor(0.0), 0.05, 0.9)
    assert float(kept) == pytest.approx(0.95 / 1.0)
    assert float(variance) == pytest.approx(0.95 * 0.05)


def test_an_observation_that_says_next_to_nothing_is_not_taken_in():
    _, kept = filtered(torch.tensor(0.0), 5e-5, 0.99)
    assert float(kept) == 1.0


def test_reset_forgets_what_was_hidden(tiny_net, make_images):
    adapter = adapt(tiny_net, "cmf", options={"process_noise": 5.0})
    for seed in range(3):
        adapter(make_images(32, seed=seed))
    assert float(adapter.method.variance) > 0
    adapter.reset()
    assert float(adapter.method.variance) == 0
    assert torch.equal(adapter.method.hidden, adapter.network.source.affine)


def test_noise_that_would_exceed_the_whole_is_held(tiny_net, make_images):
    adapter = adapt(tiny_net, "cmf", options={"process_noise": 5000.0})
    for seed in range(3):
        assert adapter(make_images(32, seed=seed)).isfinite().all()
    assert 0 <= float(adapter.method.variance) < 100
