"""A step that fails outside of its update: in a look, in its own prediction, or in an observer."""

import logging

import pytest
import torch

from multipool.methods import METHODS, adapt
from multipool.ops import Network

# Those that learn from what they predict; the others cannot collapse, so nobody looks.
_CALM = ("multipool", "source", "bn", "lame", "neo", "unmix-tns", "membn")
WATCHED = [name for name in METHODS if name not in _CALM]


@pytest.fixture
def build(make_net, make_images):
    def make(name, **more):
        images = make_images(96, seed=77)
        source = [(images[i : i + 32], torch.arange(32) % 5) for i in (0, 32, 64)]
        return adapt(make_net(), name, source=source, seed=1, **more)

    return make


@pytest.mark.parametrize("name", WATCHED)
def test_a_look_that_runs_out_of_memory_costs_nothing(build, make_images, caplog, name):
    looking, other = build(name), build(name)
    looking.stepper.recovery.every, other.stepper.recovery.every = 1, 999
    home = looking.stepper.recovery.go_home

    def fail(self, images):
        raise torch.OutOfMemoryError("none left")

    for t in range(3):
        x = make_images(48, seed=t)
        with pytest.MonkeyPatch.context() as patched:

            def broken():
                home()
                patched.setattr(Network, "_forward", fail)  # noqa: B023

            patched.setattr(looking.stepper.recovery, "go_home", broken)
            with caplog.at_level(logging.WARNING, logger="multipool"):
                found = looking(x)
        assert torch.equal(found, other(x))
    assert looking.counts == other.counts
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == ["a look was given up"] * 3
    first, second = looking.state_dict(), other.state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)


def test_where_no_view_ever_comes_the_source_model_answers(build, make_images, monkeypatch):
    adapter, source = build("cotta", options={"confidence": 1.0, "views": 2}), build("source")

    def fail(*args):
        raise RuntimeError("no view today")

    monkeypatch.setattr(adapter.method, "view", fail)
    before = adapter.method.student.values.clone()
    for t in range(2):
        x = make_images(24, seed=t)
        assert torch.equal(adapter(x), source(x))
    assert adapter.counts["skipped"] == 2
    assert torch.equal(adapter.method.student.values, before)


def test_an_observer_that_fails_is_heard_and_undoes_nothing(build, make_images):
    adapter, other = build("rotta"), build("rotta")

    def fail(facts):
        raise RuntimeError("the observer's own mistake")

    leave = adapter.observe(fail)
    with pytest.raises(RuntimeError, match="the observer's own"):
        adapter(make_images(64, seed=0))
    leave()
    other(make_images(64, seed=0))
    assert torch.equal(adapter.method.student.affine, other.method.student.affine)
    assert adapter.counts["skipped"] == 0
