"""DeYO against its paper's Eq. 7 to 11, sample by sample."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kinds import make_kind_net
from multipool.core import numpy_generator
from multipool.methods import adapt
from multipool.methods.deyo import DeYO, shuffle_patches
from multipool.ops import Group
from multipool.ops.masked import MaskedBatch

SEED = 3
OPTIONS = {"entropy_margin": 0.07, "weight_margin": 0.05, "drop": 0.0}


def literal_shuffle(image, order):
    """Put cell order[k] of a four by four grid at place k, pixel by pixel."""
    side, out = image.shape[-1] // 4, torch.empty_like(image)
    for place, cell in enumerate(order.tolist()):
        to, of = divmod(place, 4), divmod(cell, 4)
        for i in range(side):
            for j in range(side):
                out[:, to[0] * side + i, to[1] * side + j] = image[
                    :, of[0] * side + i, of[1] * side + j
                ]
    return out


class Literal:
    def __init__(self, net, affine, margin=0.07):
        self.limit = margin * math.log(5)
        self.net, self.optimizer = net, torch.optim.Adam(affine, lr=1e-3)
        self.draws, self.counts = numpy_generator(SEED, "draws", "deyo"), []

    def __call__(self, x):
        order = self.draws.random((len(x), 16)).argsort(axis=1)
        z = self.net(x)
        p = z.softmax(1)
        doubt = -(p * p.log()).sum(1)
        sure = [i for i in range(len(x)) if doubt[i] < self.limit]
        chosen, total = 0, 0.0
        if sure:
            with torch.no_grad():
                broken = self.net(torch.stack([literal_shuffle(x[i], order[i]) for i in sure]))
            for row, i in enumerate(sure):
                label = int(p[i].argmax())
                drop = float(p[i, label].detach() - broken[row].softmax(0)[label])
                if drop > 0:
                    weight = math.exp(0.05 * math.log(5) - float(doubt[i].detach())) + math.exp(
                        drop
                    )
                    chosen, total = chosen + 1, total + weight * doubt[i]
        self.counts.append((len(sure), chosen))
        if chosen:
            self.optimizer.zero_grad()
            (total / chosen).backward()
            self.optimizer.step()
        return z.detach()


def test_ten_steps_do_what_the_definition_does(tiny_net, batch_copy, drift, assert_follows):
    net, affine = batch_copy(tiny_net)
    reference = Literal(net, affine)
    adapter = adapt(tiny_net, "deyo", seed=SEED, guard=False, options=OPTIONS)
    assert_follows(adapter, reference, drift(), affine)
    assert all(0 < chosen < sure < 32 for sure, chosen in reference.counts[:-1]), reference.counts


def test_layers_without_statistics_learn_the_same_way(drift, assert_follows):
    model = make_kind_net("layernorm")
    net = copy.deepcopy(model).requires_grad_(False)
    affine = [p.requires_grad_() for name, p in net.named_parameters() if "norm" in name]
    options = {**OPTIONS, "entropy_margin": 0.98}
    adapter = adapt(model, "deyo", seed=SEED, guard=False, options=options)
    reference = Literal(net, affine, margin=0.98)
    assert_follows(adapter, reference, drift(), affine)
    assert any(0 < chosen < sure for sure, chosen in reference.counts), reference.counts


def test_masking_the_second_pass_is_the_same_as_picking_its_images(tiny_net, drift, monkeypatch):
    picked, masked = (
        adapt(tiny_net, "deyo", seed=SEED, guard=False, options=OPTIONS) for _ in range(2)
    )
    expected = [picked(x) for x in drift()]

    def masking(network, images, branch, mask):
        return network.run(Group(images, branch, MaskedBatch(mask)))[0]

    monkeypatch.setattr("multipool.methods.deyo.run_some", masking)
    for x, wanted in zip(drift(), expected, strict=True):
        torch.testing.assert_close(masked(x), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{"entropy_margin": 0.0}, {"drop": 1.0}])
def test_a_batch_with_nothing_to_learn_from_moves_nothing(tiny_net, make_images, options):
    adapter = adapt(tiny_net, "deyo", options={**OPTIONS, **options})
    before = adapter.state_dict()
    adapter(make_images(32, seed=2))
    after = adapter.state_dict()
    same = {k for k in before if torch.equal(before[k], after[k])}
    counted = {"number.seen", "number.updates", "number.batches"}
    assert before.keys() - same == {*counted, "generator.draws"}


def test_the_difference_is_of_the_class_predicted_first():
    logits = torch.tensor([[0.0, math.log(3.0)]])
    broken = torch.tensor([[math.log(3.0), 0.0]])
    assert float(DeYO.difference(logits, broken)) == pytest.approx(0.75 - 0.25)


@given(st.integers(1, 3), st.integers(0, 20))
def test_a_shuffle_is_the_pixelwise_one(side, seed):
    g = torch.Generator().manual_seed(seed)
    images = torch.rand(3, 2, 4 * side, 4 * side, generator=g)
    order = torch.rand(3, 16, generator=g).argsort(dim=1)
    expected = torch.stack([literal_shuffle(i, o) for i, o in zip(images, order, strict=True)])
    assert torch.equal(shuffle_patches(images, order, 4), expected)


@pytest.mark.parametrize("sides", [(9, 9), (3, 3), (8, 13)])
def test_sides_that_do_not_divide_are_resized_and_keep_their_size_and_colour(sides):
    images = torch.rand(2, 3, 1, 1).expand(2, 3, *sides)
    order = torch.rand(2, 16).argsort(dim=1)
    found = shuffle_patches(images, order, 4)
    torch.testing.assert_close(found, images.contiguous())


def test_one_patch_is_refused(tiny_net):
    with pytest.raises(ValueError, match="patches must be at least 2 along a side, got 1"):
        adapt(tiny_net, "deyo", options={"patches": 1})
