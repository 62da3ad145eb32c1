"""The second look in a mirror: by hand, by what must always hold, and in the method."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from multipool.methods import adapt
from multipool.methods.multipool.mirror import Looked, Mirror, doubtful, joined
from multipool.ops.mirror import mirrored

EVERY = torch.ones(4, dtype=torch.bool)


def logits_of(*probabilities):
    return torch.tensor(probabilities).log()


def found(left, said, spent=0):
    return Looked(np.array([left, said], dtype=np.float64), spent)


# Which images are looked at again --------------------------------------------------------------


def test_the_least_margins_come_first_and_sure_answers_never():
    logits = logits_of([0.5, 0.4, 0.1], [0.9, 0.05, 0.05], [0.4, 0.35, 0.25], [0.7, 0.15, 0.15])
    assert doubtful(logits, 4, EVERY).tolist() == [2, 0]  # margins 0.1, 0.85, 0.05, 0.55
    assert doubtful(logits, 1, EVERY).tolist() == [2]
    assert doubtful(logits, 4, torch.tensor([True, True, False, True])).tolist() == [0]


def test_answers_that_are_no_numbers_are_not_looked_at():
    logits = torch.tensor([[torch.nan, 0.0], [0.1, 0.0]])
    assert doubtful(logits, 2, EVERY[:2]).tolist() == [1]


# What becomes of both looks --------------------------------------------------------------------


def test_two_looks_are_averaged_where_there_is_doubt_and_the_mirror_agrees():
    first = logits_of([0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0.9, 0.05, 0.05], [0.5, 0.4, 0.1])
    again = logits_of([0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1])
    asked = torch.tensor([True, True, True, False])
    both, agreed = joined(first, again, asked, torch.tensor([True, False, True]))
    torch.testing.assert_close(both[0], (first[0] + again[0]) / 2)
    assert both[0].argmax() == 1  # the mirror was surer
    assert torch.equal(both[1:], first[1:])  # class 1 does not agree, 2 is sure, 3 was not asked
    torch.testing.assert_close(agreed, torch.tensor([[0.1, 0.1, 0.0], [0.5, 0.5, 0.0]]))


def test_an_answer_is_not_changed_by_a_mirror_that_says_the_same():
    first = logits_of([0.5, 0.4, 0.1])
    both, agreed = joined(first, first.clone(), EVERY[:1], EVERY[:3])
    torch.testing.assert_close(both, first)
    torch.testing.assert_close(agreed[0], agreed[1])


# What is known about the mirror ----------------------------------------------------------------


def test_nothing_agrees_before_anything_is_known():
    mirror = Mirror(3)
    assert not mirror.is_known
    assert not mirror.agrees().any()
    mirror.add(found([7.9, 0, 0], [7.9, 0, 0]), 64, 0.25)
    assert not mirror.agrees().any()
    mirror.add(found([0.5, 0, 0], [0.5, 0, 0]), 64, 0.25)
    assert mirror.agrees().all()  # classes never seen stand as all do


def test_classes_that_a_mirror_turns_into_others_are_told_from_the_rest():
    mirror = Mirror(3)
    mirror.add(found([18, 2, 0], [20, 10, 0]), 64, 0.25)  # all classes: 2/3
    assert mirror.agrees().tolist() == [True, False, True]
    # (2 + 4 * 20/30) / (10 + 4) is 0.33 of what it was; with 18 of 20, (18 + 2.7) / 24 is 0.86


def test_a_model_whose_classes_a_mirror_changes_is_asked_again_after_a_while():
    mirror = Mirror(2)
    mirror.add(found([4, 4], [10, 10]), 64, 0.25)
    assert mirror.is_known
    assert not mirror.agrees().any()
    for _ in range(100):
        mirror.add(found([0, 0], [0, 0]), 64, 0.25)
    assert not mirror.is_known


def test_numbers_of_a_broken_model_are_not_taken_in():
    mirror = Mirror(2)
    mirror.add(found([9, 9], [10, 10]), 64, 0.25)
    mirror.add(found([np.nan, 1], [1, 1]), 64, 0.25)
    assert np.isfinite(mirror.agreed).all()


@given(st.lists(st.tuples(st.integers(1, 70), st.booleans()), max_size=60))
def test_no_more_is_spent_than_the_share_of_the_stream_and_what_may_be_saved(batches):
    mirror, images, spent = Mirror(2), 0, 0
    for size, doubts in batches:
        most = mirror.looks(size, 0.25)
        assert 0 <= most <= size
        looked = most if doubts else 0
        mirror.add(found([0, 0], [0, 0], looked), size, 0.25)
        images, spent = images + size, spent + looked
        assert spent <= 0.25 * images + 4
        assert 0 <= mirror.credit[0] <= 4


def test_every_fourth_single_image_may_be_looked_at_again():
    mirror, looks = Mirror(2), []
    for _ in range(12):
        looks.append(mirror.looks(1, 0.25))
        mirror.add(found([0, 0], [0, 0], looks[-1]), 1, 0.25)
    assert looks == [0, 0, 0, 1] * 3


@pytest.mark.parametrize(
    "change", [{"agreed": torch.full((2, 3), -1.0)}, {"credit": torch.tensor([99.0])}]
)
def test_an_unsound_state_is_refused_and_changes_nothing(change):
    mirror = Mirror(3)
    mirror.add(found([9, 9, 9], [9, 9, 9]), 64, 0.25)
    before = mirror.state_dict()
    with pytest.raises(ValueError, match="mirror's state"):
        mirror.load_state_dict({**before, **change})
    assert all(torch.equal(a, before[name]) for name, a in mirror.state_dict().items())


def test_a_state_saved_before_there_was_a_mirror_begins_anew():
    mirror = Mirror(3)
    mirror.add(found([9, 9, 9], [9, 9, 9], 1), 64, 0.25)
    mirror.load_state_dict({})
    assert not mirror.is_known
    assert mirror.credit[0] == 0


# In the method ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize("again", [-0.1, 1.5])
def test_a_share_beyond_all_or_below_none_is_refused(again):
    with pytest.raises(ValueError, match="again must be between 0 and 1"):
        adapt(Sides(True), num_classes=3, options={"again": again})
