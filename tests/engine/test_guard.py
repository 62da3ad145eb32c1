"""The guard: which updates are undone, and a collapse found and restored."""

import logging
import re

import pytest
import torch

from multipool.engine.collapse import Verdict
from multipool.engine.guard import Guard
from multipool.engine.recovery import REST
from multipool.methods import METHODS, adapt, load

MEMORY_METHODS = [name for name, kind in METHODS.items() if kind.takes_memory]
CASES = [(name, None) for name in METHODS] + [(name, "mcm") for name in MEMORY_METHODS]
RUINOUS = {"lr": 0.3}  # far too much for TENT


# What is undone ----------------------------------------------------------------------------------


def several(seed=0):
    """Return tensors of several kinds, shapes and layouts."""
    torch.manual_seed(seed)
    return {
        "flat": torch.randn(7),
        "grid": torch.randn(3, 4).T,
        "scalar": torch.tensor(2.0),
        "double": torch.randn(5, dtype=torch.float64),
        "count": torch.arange(4),
        "empty": torch.zeros(0),
    }


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["flat", "grid", "scalar", "double", "loss"])
def test_an_update_is_kept_if_all_of_it_is_finite_and_undone_otherwise(
    monkeypatch, alone, bad, where
):
    if alone:
        monkeypatch.setattr("multipool.engine.guard._LARGE", 1)
    tensors = several()
    before = {k: t.clone() for k, t in tensors.items()}
    guard = Guard(tensors, torch.device("cpu"))

    def update():
        for t in tensors.values():
            t.add_(1)
        if bad is not None and where != "loss":
            tensors[where][(0,) * tensors[where].ndim] = bad
        return torch.tensor(bad if bad is not None and where == "loss" else 0.5)

    guard.run(update)
    expected = {k: t + (bad is None) for k, t in before.items()}
    assert all(torch.equal(t, expected[k]) for k, t in tensors.items())
    assert guard.skipped() == (bad is not None)
    for t in tensors.values():
        t.zero_()
    guard.undo()
    assert all(torch.equal(t, expected[k]) for k, t in tensors.items())


def test_what_changes_outside_of_an_update_is_taken_in_only_if_it_is_finite():
    tensors = several()
    guard = Guard(tensors, torch.device("cpu"))
    tensors["grid"].add_(1)
    good = tensors["grid"].clone()
    guard.close()
    tensors["grid"][0, 0] = float("nan")
    guard.close()
    assert torch.equal(tensors["grid"], good)
    assert guard.skipped() == 1
    guard.close()  # nothing has changed since
    assert guard.skipped() == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", MEMORY_METHODS)
def test_a_bank_takes_nothing_in_from_logits_that_are_not_finite(
    build, make_images, monkeypatch, name, bad
):
    for memory in (None, "mcm", "fifo"):
        adapter = build(name, memory)
        adapter(make_images(64, seed=0))
        before = adapter.state_dict()
        original = type(adapter.network)._forward

        def spoilt(self, images, original=original):
            logits = original(self, images)
            logits[5, 2] = bad
            return logits

        with monkeypatch.context() as patched:
            patched.setattr(type(adapter.network), "_forward", spoilt)
            assert adapter(make_images(100, seed=1)).isfinite().all()
        after = adapter.state_dict()
        moved = {k for k in before if not torch.equal(before[k], after[k])}
        assert {k for k in moved if not k.startswith("decoder.")} == {"number.batches"}
        assert adapter.counts["skipped"] == 1


@pytest.fixture
def diverse(make_net, make_images):
    """Return a network that predicts every class under the statistics of a batch."""
    net = make_net()
    with torch.no_grad():
        net.fc.bias.sub_(adapt(net, "bn")(make_images(512, seed=999)).mean(dim=0))
    return net


@pytest.fixture
def collapse(diverse, make_images):
    """Run a method, TENT at a ruinous rate, for 80 batches; return it and its predictions."""

    def run(name="tent", heard=None, **more):
        options = RUINOUS if name == "tent" else None
        adapter = adapt(diverse, name, options=options, **more)
        if adapter.stepper.recovery is not None:
            adapter.stepper.recovery.every = 4
        if heard is not None:
            adapter.observe(heard.append)
        found = [adapter(make_images(64, seed=t)).argmax(dim=1) for t in range(80)]
        return adapter, torch.stack(found)

    return run


def test_a_collapse_is_restored_counted_told_and_logged(collapse, caplog):
    heard = []
    _, expected = collapse("bn")
    _, ruined = collapse(guard=False)
    with caplog.at_level(logging.WARNING, logger="multipool"):
        adapter, kept = collapse(heard=heard)
    assert (ruined[40:] == expected[40:]).float().mean() < 0.6
    assert (kept[40:] == expected[40:]).float().mean() > 0.95
    assert adapter.counts["restored"] == 1
    lines = [r.getMessage() for r in caplog.records if "collapsed" in r.getMessage()]
    assert len(lines) == 1
    assert re.match(r"batch \d+: predictions collapsed \(\d+ % of the classes and \d+ %", lines[0])
    assert re.search(rf"went back to the .* and learn nothing for {REST} batches$", lines[0])
    events = [f for f in heard if "event" in f]
    assert [(f["event"], f["restored"]) for f in events] == [("restored", 1)]


def test_the_fallback_to_the_source_predicts_as_the_source(collapse, diverse, make_images):
    adapter, kept = collapse(fallback="source")
    plain, expected = collapse("source")
    assert adapter.counts["restored"] == 1
    assert torch.equal(kept[40:], expected[40:])
    x = make_images(9, seed=200)
    assert torch.equal(adapter.predict(x), plain(x))


def test_saved_while_it_rests_it_goes_on_bit_for_bit(collapse, diverse, make_images, tmp_path):
    adapter, _ = collapse()
    adapter.save(tmp_path / "state")
    again = load(tmp_path / "state", diverse)
    again.stepper.recovery.every = 4
    for t in range(5):
        x = make_images(64, seed=300 + t)
        assert torch.equal(adapter(x), again(x))
    first, second = adapter.state_dict(), again.state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize(("name", "memory"), CASES)
def test_a_look_for_a_collapse_changes_nothing(build, make_images, monkeypatch, name, memory):
    monkeypatch.setattr(Verdict, "collapsed", False)
    looking, plain = build(name, memory), build(name, memory, guard=False)
    if looking.stepper.recovery is not None:
        looking.stepper.recovery.every = 1
    before = {k: t.data_ptr() for k, t in looking.state.tensors.items()}
    for t in range(4):
        x = make_images(64, seed=t)
        assert torch.equal(looking(x), plain(x))
    state = looking.state_dict()
    assert all(torch.equal(state[k], v) for k, v in plain.state_dict().items())
    assert before == {k: t.data_ptr() for k, t in looking.state.tensors.items()}  # for CUDA graphs


def test_names_of_the_guard_are_checked(make_net):
    for arguments, message in [
        ({"fallback": "sauce"}, "did you mean 'source'"),
        ({"bad_input": "drop"}, "unknown bad_input 'drop'"),
        ({"fallback": "source", "guard": False}, "needs guard=True"),
    ]:
        with pytest.raises(ValueError, match=message):
            adapt(make_net(), "tent", **arguments)
