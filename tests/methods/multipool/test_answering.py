"""Answers with a second look in a mirror: the statistics they are made with, whom they change."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kinds import make_kind_net
from multipool.methods import adapt
from multipool.methods.multipool.second_look import Part
from multipool.ops.mirror import mirrored


class Sides(nn.Module):
    """Says which third of the image is brightest: the left, the middle or the right one.

    One that is ``symmetric`` says of both sides alike how bright they are, or nearly.
    """

    def __init__(self, symmetric, scale=12.0):
        super().__init__()
        self.norm, self.symmetric, self.scale = nn.BatchNorm2d(3), symmetric, scale

    def forward(self, x):
        columns = self.norm(x).mean(dim=(1, 2))  # (B, W)
        left, middle, right = (part.mean(dim=1) for part in columns.split([3, 2, 3], dim=1))
        if self.symmetric:
            left, right = 0.6 * left + 0.4 * right, 0.4 * left + 0.6 * right - 9.0
        return self.scale * torch.stack([left, middle, right], dim=1)


STILL = {"young": 0, "update_every": 10**6, "lr": 0.0}  # statistics stay the source's


@pytest.fixture
def lit(make_images):
    """Return images of which some columns are brighter, by more or less."""

    def make(count, seed):
        images, rng = 0.5 * make_images(count, seed=seed), np.random.default_rng(seed)
        for image in images:
            column = rng.integers(0, 6)
            image[..., column : column + 3] += rng.uniform(0, 0.4)
        return images

    return make


def streamed(model, images, **options):
    adapter = adapt(model.eval(), num_classes=3, options={**STILL, **options}, decode="none")
    return adapter, torch.cat([adapter(part) for part in images.split(64)])


def test_a_model_to_which_a_mirror_is_another_image_answers_as_it_did(lit):
    images = lit(640, 3)
    adapter, answers = streamed(Sides(False, scale=40.0), images)
    assert adapter.method.mirror.is_known
    assert not adapter.method.mirror.agrees()[[0, 2]].any()
    before = streamed(Sides(False, scale=40.0), images, again=0.0)[1]
    late = (answers != before).any(dim=1)[320:]  # by then all three classes are known
    assert (before[320:][late].argmax(dim=1) == 1).all()  # the middle is where it was


def test_a_symmetric_model_is_answered_by_the_mean_of_both_looks(lit):
    images = lit(640, 3)
    adapter, answers = streamed(Sides(True), images)
    plain, before = streamed(Sides(True), images, again=0.0)
    assert adapter.method.mirror.agrees().all()
    assert plain.method.mirror.agreed.sum() == 0
    changed = (answers != before).any(dim=1)
    assert not changed[:64].any()  # nothing was known yet
    assert 32 < changed.sum() <= 0.25 * 640 + 4
    two = before.softmax(1).topk(2).values
    assert (two[changed, 0] - two[changed, 1] < 0.5).all()
    with torch.no_grad():
        again = Sides(True).eval()(mirrored(images))
    torch.testing.assert_close(answers[changed], ((before + again) / 2)[changed])


@pytest.mark.parametrize("young", [0, 10**6])
def test_the_second_look_is_with_the_statistics_of_the_first(lit, young):
    # A prior of next to nothing: all statistics are the pool's own.
    options = {"young": young, "update_every": 64, "lr": 0.0, "prior": 1e-9}
    adapter, _ = streamed(Sides(True, scale=1.5), lit(640, 3), **options)
    images, once = lit(64, 4), copy.deepcopy(adapter)
    once.method.config = replace(once.method.config, again=0.0)
    first, answers = once.predict(images), adapter.predict(images)
    changed = (answers != first).any(dim=1)
    share = 0.5 if young else 0.25  # a young pool may look at twice as many
    assert 0 < changed.sum() <= share * 64 + 4
    norm, me = adapter.method.network.source.layers[0], adapter.method
    mean, var = me.own[0].split(3)
    if young:  # these images move the statistics first
        rate = me.rate(0)
        mean = mean.lerp(images.mean(dim=(0, 2, 3)), rate)
        var = var.lerp(images.var(dim=(0, 2, 3), correction=0), rate)
    model = Sides(True, scale=1.5).eval()
    model.norm.running_mean, model.norm.running_var, model.norm.eps = mean, var, norm.eps
    with torch.no_grad():
        torch.testing.assert_close(first, model(images), atol=2e-3, rtol=0)
        expected = (model(images) + model(mirrored(images))) / 2
    torch.testing.assert_close(answers[changed], expected[changed], atol=2e-3, rtol=0)


def test_looking_changes_nothing_that_is_kept(lit):
    adapter, _ = streamed(Sides(True), lit(640, 3))
    before = adapter.state_dict()
    adapter.predict(lit(64, 4))
    after = adapter.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def beside_host(model, images, guesses):
    """Return what an adapter answers whose passes run while the host goes on, and its state."""
    adapter = adapt(
        model.eval(), num_classes=3, options={"young": 128, "update_every": 32}, decode="none"
    )
    method, taken = adapter.method, []
    method.beside_host, answered = True, method.answered

    def watched(images, pools, fresh, router, guess):
        found = answered(images, pools, fresh, router, guess)
        taken.append(guess is not None and found[0] is guess.look)
        return found

    method.answered = watched
    if not guesses:
        method.guess = lambda images: None
    answers = torch.cat([adapter(part) for part in images.split(64)])
    return answers, adapter.state_dict(), taken


def test_a_second_look_before_images_are_sorted_finds_what_one_afterwards_does(lit):
    images = torch.cat([lit(640, 3), 0.3 * lit(640, 4) + 0.6, lit(320, 5)])  # there and back
    first, state, taken = beside_host(Sides(True, scale=4.0), images, guesses=True)
    then, other, none = beside_host(Sides(True, scale=4.0), images, guesses=False)
    assert sum(taken) >= 10
    assert not any(none)
    # A guess is taken if the weight of the pool's statistics is right to 0.005.
    torch.testing.assert_close(first.softmax(dim=1), then.softmax(dim=1), rtol=0, atol=0.01)
    assert state.keys() == other.keys()
    found = [name for name in state if "mirror" in name]
    assert found
    for name in found:
        torch.testing.assert_close(state[name], other[name], rtol=0.01, atol=0.01)


def test_parts_look_no_more_often_together_than_the_stream_may(lit):
    model = Sides(True)
    adapter, _ = streamed(model, lit(640, 3))
    method, images = adapter.method, lit(40, 5)
    with torch.no_grad():
        logits = 0.01 * model(images)  # all in doubt
        rows = np.arange(40)
        parts = [
            Part(part, lambda _, views: model(views), young=False) for part in (rows[:9], rows[9:])
        ]
        look = method.look_again(images, logits, parts)
        whole = method.look_again(images, logits, [parts[0]._replace(rows=rows)])
    assert whole.spent == method.mirror.looks(40, 0.25)
    assert whole.spent - 1 <= look.spent <= whole.spent  # each part's share is a whole number
    changed = (look.logits != logits).any(dim=1)
    assert changed[:9].any()
    assert changed[9:].any()


def test_only_images_of_the_part_and_of_classes_worth_a_look_are_asked(lit):
    adapter, _ = streamed(Sides(True), lit(640, 3))
    logits = torch.tensor([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [1.0, 0.8, 0.0], [1.0, 0.95, 0.0]])
    mine = torch.tensor([True, True, True, False])
    worth = torch.tensor([True, False, True])
    images = lit(4, 5)
    rows, views, asked = adapter.method.doubtful_pass(images, logits, mine, worth, torch.ones(4))
    assert rows.tolist() == [0, 2]  # row 1 is said to be of a class not worth it, row 3 not of it
    assert asked.tolist() == [True, True]
    torch.testing.assert_close(views, mirrored(images[[0, 2]]))
    again = torch.tensor([[0.0, 5.0, 0.0], [0.0, 5.0, 0.0]])
    both, agreed = adapter.method.joined_pass(logits, again, rows, asked, worth)
    assert both.argmax(dim=1).tolist() == [1, 1, 1, 0]
    assert torch.equal(both[[1, 3]], logits[[1, 3]])
    assert agreed[:, 1:].sum() == 0


# Pools, and models that have none ---------------------------------------------------------------

NEAR = 1e-4  # what rounding may do to logits


def looking_at_all(model, **options):
    """Return an adapter that looks again at all that is in doubt, and has learned that it may."""
    adapter = adapt(model, decode="none", options={"again": 1.0, "lr": 0.0, **options})
    adapter.method.mirror.agreed += 100.0
    return adapter


@torch.no_grad()
def by_hand(model, images, shift=0.0):
    """Return the mean of both looks ``(B, L)`` where two classes are near, else the first."""
    first, again = model(images) - shift, model(mirrored(images)) - shift
    two = first.softmax(dim=1).topk(2).values
    doubt = (two[:, :1] - two[:, 1:]) < 0.5
    assert ((first - again).abs().amax(dim=1) > 10 * NEAR)[doubt[:, 0]].any()
    return torch.where(doubt, (first + again) / 2, first)


def test_images_of_two_pools_are_looked_at_again_with_the_statistics_of_their_own(make_net, stream):
    net, batches = make_net().eval(), stream(6)
    for part in net.fc.parameters():
        part.data *= 0.05  # so that it doubts
    adapter = looking_at_all(net, young=0, update_every=32, prior=1e-9)
    for x in batches:
        adapter(x)
    method = adapter.method
    mixed = torch.stack([batches[1][:20], batches[4][:20]], dim=1).flatten(0, 1)  # in turns
    route = method.predict(mixed).route
    assert set(route.pools[::2]) == {0}
    assert set(route.pools[1::2]) == {1}
    found, expected = adapter.predict(mixed), torch.zeros(40, 5)
    for pool in (0, 1):
        mine = route.pools == pool
        parts = method.own[pool].split([12, 16, 16])
        for layer, part in zip((net.bn1, net.bn2, net.bn3), parts, strict=True):
            layer.running_mean[:], layer.running_var[:] = part.chunk(2)
        expected[mine] = by_hand(net, mixed[mine])
    torch.testing.assert_close(found, expected, rtol=0, atol=NEAR)


def test_without_statistics_both_looks_are_re_centred(make_images, monkeypatch):
    adapter = looking_at_all(make_kind_net("layernorm"), lr_without=0.0)
    model = make_kind_net("layernorm").eval()
    shift = torch.tensor([0.5, -0.5, 0.25, 0.0, -0.25], dtype=torch.float64)
    monkeypatch.setattr(adapter.method.centre, "shift", lambda state: shift)
    images = make_images(64, seed=5)
    expected = by_hand(model, images, shift.float())
    torch.testing.assert_close(adapter.predict(images), expected, rtol=0, atol=NEAR)
