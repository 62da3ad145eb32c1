"""The guard: what counts as a collapse, what is restored, and what happens to bad rows."""

import logging
import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.engine.collapse import QUICK, WINDOW, Verdict, effective_classes, judge, tally
from multipool.engine.guard import Guard
from multipool.engine.recovery import CALM, LONGEST, REST, Recovery
from multipool.methods import METHODS, adapt, load

MEMORY_METHODS = [name for name, kind in METHODS.items() if kind.takes_memory]
CASES = [(name, None) for name in METHODS] + [(name, "mcm") for name in MEMORY_METHODS]
RUINOUS = {"lr": 0.3}  # far too much for TENT


@pytest.fixture
def source(make_images):
    images = make_images(96, seed=77)
    return [(images[i : i + 32], torch.arange(32) % 5) for i in (0, 32, 64)]


@pytest.fixture
def build(make_net, source):
    def make(name, memory=None, **more):
        return adapt(make_net(), name, memory, source=source, seed=1, **more)

    return make


# What counts as a collapse -----------------------------------------------------------------------


def probes(live, home, entropies=(1.0, 1.0), count=WINDOW):
    pair = [[*live, entropies[0]], [*home, entropies[1]]]
    return torch.tensor([pair] * count, dtype=torch.float64)


def test_a_tally_counts_classes_and_averages_entropy():
    p = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.9, 0.1, 0.0]])
    by_hand = [-sum(q * math.log(q) for q in row if q > 0) for row in p.tolist()]
    found = tally(p.clamp_min(1e-30).log())
    assert found[:3].tolist() == [2, 1, 0]
    assert float(found[3]) == pytest.approx(sum(by_hand) / 3, abs=1e-6)


@given(st.integers(1, 50), st.integers(1, 9))
def test_equal_counts_of_so_many_classes_are_so_many_effective_classes(classes, each):
    counts = torch.zeros(60)
    counts[:classes] = each
    assert effective_classes(counts) == pytest.approx(classes, rel=1e-5)


def test_fewer_classes_and_surer_of_them_is_a_collapse_and_either_alone_is_none():
    even, odd = [10, 10, 10, 10], [22, 6, 6, 6]
    assert judge(probes(odd, even, (0.5, 1.0))).collapsed
    assert not judge(probes(odd, even, (1.0, 1.0))).collapsed
    assert not judge(probes(even, even, (0.5, 1.0))).collapsed
    assert not judge(probes(even, odd, (0.5, 1.0))).collapsed  # more classes than without learning
    assert not judge(probes(odd, even, (0.5, 1.0), count=WINDOW - 1)).collapsed  # too early to say


def test_other_classes_from_probe_to_probe_are_no_collapse_and_always_the_same_few_are():
    home = torch.full((WINDOW, 8), 2.0, dtype=torch.float64)
    home[range(WINDOW), [0, 1, 2, 3] * 2] = 50  # four classes shown in turn, the rest mistaken
    better = torch.zeros_like(home)
    better[range(WINDOW), [0, 1, 2, 3] * 2] = 64
    stuck = torch.zeros_like(home)
    stuck[:, [0, 1, 2, 3]] = 16
    for counts, collapsed in ((better, False), (stuck, True)):
        live = torch.cat([counts, torch.full((WINDOW, 1), 0.3)], dim=1)
        there = torch.cat([home, torch.full((WINDOW, 1), 1.0)], dim=1)
        verdict = judge(torch.stack([live, there], dim=1))
        assert verdict.diversity < 0.95
        assert verdict.collapsed == collapsed


def test_the_spread_is_the_mutual_information_of_class_and_probe():
    draw = torch.Generator().manual_seed(3)
    counts = torch.randint(1, 20, (WINDOW, 2, 6), generator=draw).double()
    counts /= counts.sum(dim=2, keepdim=True)
    told = []
    for p in counts.unbind(dim=1):  # (P, L) each, rows of equal weight
        joint = p / WINDOW
        independent = joint.sum(dim=0, keepdim=True) * joint.sum(dim=1, keepdim=True)
        told.append(float((joint * (joint / independent).log()).sum()))
    doubt = torch.ones(WINDOW, 2, 1, dtype=torch.float64)
    verdict = judge(torch.cat([counts, doubt], dim=2))
    assert verdict.spread == pytest.approx(told[0] / told[1])


def test_one_class_instead_of_four_is_ruin_however_unsure():
    one, four = [40, 0, 0, 0], [10, 10, 10, 10]
    assert judge(probes(one, four, (9.0, 1.0), count=QUICK)).collapsed
    assert not judge(probes(one, four, (9.0, 1.0), count=QUICK - 1)).collapsed
    assert not judge(probes(one, one)).collapsed  # the stream shows one class only


@given(
    st.lists(st.lists(st.integers(0, 20), min_size=5, max_size=5), min_size=1, max_size=WINDOW),
    st.floats(0.01, 5),
)
def test_a_model_that_predicts_as_without_learning_never_collapses(rows, doubt):
    stacked = torch.tensor([[[*row, doubt]] * 2 for row in rows], dtype=torch.float64)
    stacked[:, :, 0] += 1  # at least one prediction
    verdict = judge(stacked)
    assert not verdict.collapsed
    assert verdict.diversity == pytest.approx(1)


# What is restored --------------------------------------------------------------------------------


def test_restoring_prefers_the_good_state_then_the_beginning_and_rests_longer_each_time():
    live = torch.zeros(3)
    recovery = Recovery({"a": live}, num_classes=4, every=1)
    live.fill_(1)
    even = torch.eye(4).repeat(4, 1)
    for t in range(WINDOW):
        assert recovery.probe(even, even, t, seen=7).healthy == (t == WINDOW - 1)
    live.fill_(2)
    assert recovery.restore(100, source=False) == ("the last good state", 7)
    assert live.tolist() == [1, 1, 1]
    assert recovery.resting(100 + REST)
    assert not recovery.resting(101 + REST)
    live.fill_(3)
    assert recovery.restore(102 + REST, source=False) == ("the source model", 0)
    assert live.tolist() == [0, 0, 0]
    assert recovery.resting(102 + 3 * REST)
    for _ in range(20):
        recovery.restore(0, source=True)
    assert not recovery.resting(1 + LONGEST)
    assert recovery.restored == 22


def test_looks_are_rarer_while_all_is_well_and_as_often_as_ever_once_it_is_not():
    recovery = Recovery({"a": torch.zeros(1)}, num_classes=4, every=2)
    even, one = torch.eye(4).repeat(4, 1), torch.eye(4)[:1].repeat(16, 1)
    looks, batches = [], 0
    while len(looks) < WINDOW + 4:
        if recovery.due(batches):
            looks.append(batches + 1)
            recovery.probe(even if len(looks) < WINDOW + 3 else one, even, batches, seen=0)
        batches += 1
    calm = [2 * WINDOW + 2 * CALM * i for i in range(1, 4)]
    assert looks == [2 * i for i in range(1, WINDOW + 1)] + [*calm, calm[-1] + 2]
    other = Recovery({"a": torch.zeros(1)}, num_classes=4, every=2)
    other.load_state_dict(recovery.state_dict())
    assert [other.due(t) for t in range(20)] == [recovery.due(t) for t in range(20)]
    recovery.restore(batches, source=True)
    assert recovery.due(batches | 1)


@pytest.mark.parametrize(
    ("live", "entropies", "calm"),
    [
        ([10, 10, 10, 10], (1.0, 1.0), True),
        ([10, 10, 10, 10], (0.9, 1.0), False),  # surer: may be good, may be how a collapse begins
        ([10, 10, 10, 10], (1.3, 1.0), True),
        ([12, 10, 9, 9], (0.97, 1.0), True),
        ([12, 10, 9, 9], (0.9, 1.0), False),
        ([22, 6, 6, 6], (1.0, 1.0), False),
    ],
)
def test_all_is_well_where_a_model_is_as_diverse_and_about_as_sure_as_without_learning(
    live, entropies, calm
):
    assert judge(probes(live, [10, 10, 10, 10], entropies)).calm == calm
    # What was well so far and no longer is counts at once.
    before, now = probes([10, 10, 10, 10], [10, 10, 10, 10]), probes([9, 10, 11, 10], [10] * 4)
    now[:, 0, -1] = 0.8
    assert not judge(torch.cat([before, now])[QUICK:-QUICK]).calm


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


# Bad rows ----------------------------------------------------------------------------------------


def spoil(images):
    bad = images.clone()
    bad[2, 0, 0, 0] = float("nan")
    bad[5, 1] = float("inf")
    bad[9, 2, 3, 3] = -float("inf")
    bad[11] *= 255
    rows = torch.zeros(len(images), dtype=torch.bool)
    rows[[2, 5, 9, 11]] = True
    return bad, rows


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize(("name", "memory"), CASES)
def test_masked_rows_get_the_sources_logits_and_teach_nothing(
    build, make_images, name, memory, guard
):
    masking = build(name, memory, bad_input="mask", guard=guard)
    spared, plain = build(name, memory, guard=guard), build("source")
    for t in range(3):
        bad, rows = spoil(make_images(44, seed=t))
        mended = torch.where(bad.isnan(), 0.5, bad).clamp(0, 1)[rows]
        assert torch.equal(masking.predict(bad)[~rows], spared.predict(bad[~rows]))
        logits = masking(bad)
        assert logits.isfinite().all()
        assert torch.equal(logits[~rows], spared(bad[~rows]))
        torch.testing.assert_close(logits[rows], plain(mended))
    first, second = masking.state_dict(), spared.state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert masking.counts["masked"] == 12


def test_a_batch_of_bad_rows_only_is_answered_and_counts_for_nothing(build, make_images):
    adapter = build("rotta", "mcm", bad_input="mask")
    heard = []
    adapter.observe(heard.append)
    before = adapter.state_dict()
    assert adapter(make_images(6) * float("nan")).isfinite().all()
    after = adapter.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert [(f["event"], f["masked"]) for f in heard] == [("masked", 6)]
    for bad in ([1], make_images(2)[0], make_images(2).long(), make_images(2)[:0]):
        with pytest.raises(ValueError, match="images must"):
            adapter(bad)
    assert torch.equal(adapter((make_images(6) * 255).byte()).argmax(1) >= 0, torch.ones(6) > 0)
