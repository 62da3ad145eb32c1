"""Pools that may be parts of others: what is asked, what decides, whose statistics answer."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kinds import make_kind_net
from multipool.methods import adapt, load
from multipool.methods.multipool.leaning import Leaning, Trial
from multipool.models import with_batchnorm

TRIALS = st.builds(
    Trial, st.integers(0, 2), st.floats(-50, 50, allow_nan=False), st.integers(1, 64)
)


def after(*trials):
    leaning = Leaning(4)
    for trial in trials:
        leaning.take(3, trial)
    return leaning


# What is found out -----------------------------------------------------------------------------


def test_a_pool_leans_if_its_images_are_answered_surer_by_a_twentieth():
    assert Leaning(4).leans(3, Trial(0, 1.7, 32))
    assert not Leaning(4).leans(3, Trial(0, 1.5, 32))
    assert not after(Trial(0, -3.0, 32)).leans(3, Trial(0, 3.0, 32))  # 0 of 64 in all
    assert after(Trial(0, 4.0, 32)).leans(3, Trial(0, 0.0, 32))  # 4 of 64


def test_five_hundred_images_decide_and_who_leans_is_asked_on():
    against, in_favour = (after(*[Trial(0, gain, 64)] * 8) for gain in (-1.0, 10.0))
    assert not against.asks(3, 0)
    assert against.asks(3, 1)  # another pool is another question
    assert in_favour.asks(3, 0)


def test_what_was_found_out_about_one_pool_says_nothing_about_another():
    leaning = after(Trial(0, 30.0, 64))
    assert not leaning.leans(3, Trial(1, 0.0, 32))
    leaning.take(3, Trial(1, 0.0, 32))
    assert (leaning.on[3], leaning.gains[3], leaning.images[3]) == (1, 0.0, 32)


def test_who_leans_comes_off_again_if_that_makes_answers_less_sure():
    leaning = after(*[Trial(0, 20.0, 64)] * 20)
    turns = 0
    while leaning.leans(3, Trial(0, -10.0, 64)):
        leaning.take(3, Trial(0, -10.0, 64))
        turns += 1
    assert turns == 2  # of 64 images: 20 of 128 are left of the gain, then 6.7, then none


def test_what_another_pool_left_behind_says_nothing_about_one_that_begins():
    against, in_favour = after(Trial(0, -99.0, 512)), after(Trial(0, 99.0, 128))
    assert not against.asks(3, 0)
    assert against.asks(3, 0, fresh=True)
    assert in_favour.leans(3, Trial(0, -1.0, 32))
    assert not in_favour.leans(3, Trial(0, -1.0, 32), fresh=True)


@pytest.mark.parametrize("gone", [3, 0])
def test_a_place_that_another_pool_takes_is_forgotten_by_both(gone):
    leaning = after(Trial(0, 30.0, 64))
    leaning.forget(gone)
    assert leaning.on.tolist() == [-1] * 4
    assert leaning.gains.sum() == leaning.images.sum() == 0


def test_numbers_of_a_broken_model_are_not_taken_in():
    assert after(Trial(0, np.nan, 64)).on[3] == -1


@given(st.lists(TRIALS, max_size=60))
def test_no_more_is_remembered_than_so_many_images_bring(trials):
    leaning = after(*trials)
    assert 0 <= leaning.images[3] <= 128
    assert abs(leaning.gains[3]) <= 50 * max(leaning.images[3], 1)
    assert leaning.asked[3] >= leaning.images[3]


def test_a_state_goes_on_where_it_was_and_an_unsound_one_changes_nothing():
    leaning, other = after(Trial(0, 30.0, 64)), Leaning(4)
    other.load_state_dict(leaning.state_dict())
    assert all(torch.equal(a, other.state_dict()[n]) for n, a in leaning.state_dict().items())
    for bad in ({"on": torch.tensor([4, 0, 0, 0])}, {"asked": torch.full((4,), -1)}):
        with pytest.raises(ValueError, match="leaning pools' state"):
            other.load_state_dict({**leaning.state_dict(), **bad})
    assert other.on[3] == 0
    other.load_state_dict({})  # saved before pools leaned
    assert other.on[3] == -1


# Whose statistics answer -----------------------------------------------------------------------


@pytest.fixture
def near(make_net, stream):
    """Return an adapter with two near pools in a stream in runs, and images of the second.

    They are answered surer with the statistics of the first.
    """
    net, batches = make_net().eval(), stream(6)
    options = {"young": 0, "update_every": 10**6, "lr": 0.0, "again": 0.0, "prior": 1e-9}
    adapter = adapt(net, decode="none", options=options)
    for x in batches:
        adapter(x)
    method = adapter.method
    assert method.router.alive.tolist() == [0, 1]
    method.own[1] = method.home
    moments = method.home.split(method.branch.moment_sizes)  # of each layer mean and variance
    flat = [part * 1e4 if i % 2 else part for i, part in enumerate(moments)]
    method.own[0] = torch.cat(flat)  # with which this network is sure
    method.accounts.counts[0] += 1000
    method.correlation.sums[:] = [1000.0, 300.0]
    gap = method.router.nearest(1, [0])[1]
    method.router.centres[0] += (1 - gap**-0.5 / 2) * (
        method.router.centres[1] - method.router.centres[0]
    )
    return adapter, batches[4][:40]


def answers(method, images, pool):
    return method.of_one(images, pool, method.known_trust(pool, method.router)).logits


def answered(method, images, pools, fresh=()):
    """Return logits, and what was found out, for images that belong to these pools."""
    with torch.no_grad():
        look, _, trials = method.answered(images, np.array(pools), set(fresh), method.router, None)
    return look.logits, trials


@torch.no_grad()
def test_a_pool_near_another_is_answered_with_the_statistics_that_make_it_surer(near):
    adapter, images = near
    method = adapter.method
    assert method.router.nearest(1, [0])[1] == pytest.approx(0.25, abs=0.02)
    own, other = answers(method, images, 1), answers(method, images, 0)
    found, trials = answered(method, images, [1] * 40)
    gain = (other.softmax(dim=1).amax(dim=1) - own.softmax(dim=1).amax(dim=1)).sum()
    assert trials[1].gain == pytest.approx(float(gain), rel=1e-3)
    assert trials[1].gain > 0.05 * 40
    torch.testing.assert_close(found, other)


@torch.no_grad()
@pytest.mark.parametrize("why", ["random order", "far", "less sure", "younger", "known"])
def test_otherwise_it_is_answered_with_its_own(near, why):
    adapter, images = near
    method = adapter.method
    if why == "random order":
        method.correlation.sums[1] = 0.0
    elif why == "far":
        method.router.centres[0] += 20 * (method.router.centres[0] - method.router.centres[1])
    elif why == "less sure":
        method.own[[0, 1]] = method.own[[1, 0]]
    elif why == "younger":
        method.accounts.counts[1] += 2000
    else:
        method.leaning.take(1, Trial(0, -100.0, 512))
    found, trials = answered(method, images, [1] * 40)
    assert (1 in trials) == (why == "less sure")
    torch.testing.assert_close(found, answers(method, images, 1))


@pytest.mark.parametrize(
    ("kind", "seen", "distance", "asked"),
    [
        ("batchnorm", 1000, 0.9, True),
        ("batchnorm", 3000, 1.1, False),
        ("groupnorm", 1000, 0.4, False),
        ("groupnorm", 1000, 0.25, True),
        ("groupnorm", 3000, 0.9, True),
    ],
)
def test_how_near_a_pool_must_lie_depends_on_the_norms_and_on_what_the_other_has_seen(
    near, monkeypatch, kind, seen, distance, asked
):
    adapter, images = near
    method, net = adapter.method, make_kind_net(kind)
    layered = net if kind == "batchnorm" else with_batchnorm(net, images)
    monkeypatch.setattr(method, "only_batchnorm", adapt(layered).method.only_batchnorm)
    method.accounts.counts[0] *= seen / method.accounts.counts[0].sum()
    method.accounts.counts[1] *= 600 / method.accounts.counts[1].sum()
    centres = method.router.centres
    for _ in range(20):  # in whitened units, from which a little is taken off
        gap = method.router.nearest(1, [0])[1]
        centres[0] = centres[1] + (distance / gap) ** 0.5 * (centres[0] - centres[1])
    assert method.router.nearest(1, [0])[1] == pytest.approx(distance, abs=0.01)
    assert (1 in answered(method, images, [1] * 40)[1]) == asked


@torch.no_grad()
@pytest.mark.parametrize("beside_host", [False, True])
def test_only_the_rows_of_the_pool_change_and_each_is_looked_at_with_its_statistics(
    near, beside_host
):
    adapter, images = near
    method, parts = adapter.method, []
    look, method.beside_host = method.look_again, beside_host
    method.look_again = lambda x, logits, asked: parts.extend(asked) or look(x, logits, asked)
    found, _ = answered(method, images, [1, 0] * 20)
    every = answers(method, images, 0)
    torch.testing.assert_close(found, every, rtol=0, atol=1e-4)
    assert [part.rows.tolist() for part in parts] == [
        list(range(1, 40, 2)),
        list(range(0, 40, 2)),
    ]
    for part in parts:
        rows = torch.from_numpy(part.rows)
        again = part.again(rows, images[rows])
        torch.testing.assert_close(again, every[rows], rtol=0, atol=1e-4)


def test_a_pool_that_takes_the_place_of_another_is_asked_anew(near):
    adapter, images = near
    method = adapter.method
    method.leaning.take(1, Trial(0, -300.0, 512))
    assert not answered(method, images, [1] * 40)[1]
    assert answered(method, images, [1] * 40, fresh={1})[1]


def test_a_trial_is_kept_and_goes_on_from_a_file_to_the_last_bit(near, make_net, tmp_path):
    adapter, images = near
    method = adapter.method
    method.predict(images)
    assert method.leaning.on[1] == -1  # predicting alone changes nothing
    adapter(images)
    assert method.leaning.on[1] == 0
    assert method.leaning.images[1] == 40
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", make_net().eval())
    assert again.method.leaning.state_dict()["images"][1] == 40
    for one in (adapter, again):  # now its own statistics are the surer ones, but not for long
        one.method.own[[0, 1]] = one.method.own[[1, 0]]
    first, second = adapter(images[:4]), again(images[:4])
    assert torch.equal(first, second)
    again.method.leaning.forget(1)
    assert not torch.equal(adapter.predict(images[:4]), again.predict(images[:4]))
