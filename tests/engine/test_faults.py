"""Whatever breaks inside an update, predictions keep coming, finite and about as good."""

import numpy as np
import pytest
import torch
from faults import FAULTS, Fault, raising

from multipool import data, models
from multipool.methods import METHODS, adapt
from multipool.ops import Network

MEMORY_METHODS = [name for name, kind in METHODS.items() if kind.takes_memory]
BANKS = ("mcm", "mcm+", "fifo")
CASES = [(name, None) for name in METHODS] + [(name, "mcm") for name in MEMORY_METHODS]
EVERY_CASE = CASES + [(name, bank) for name in MEMORY_METHODS for bank in BANKS[1:]]
# No gradient and no view to break.
NOTHING_LEARNED = ("multipool", "source", "bn", "lame", "neo", "unmix-tns", "membn")
# Take no step where no sample is worth it.
SELECTIVE = ("eata", "rdumb", "mecta", "deyo", "reservoir")
OPTIONS = {"cotta": {"confidence": 1.0, "views": 4}}  # views in every batch


@pytest.fixture
def net(make_net, make_images):
    """Return a network that predicts every class under the statistics of a batch."""
    net = make_net()
    with torch.no_grad():
        net.fc.bias.sub_(adapt(net, "bn")(make_images(512, seed=999)).mean(dim=0))
    return net


@pytest.fixture
def build(net, make_images):
    def make(name, memory=None, **more):
        images = make_images(96, seed=77)
        source = [(images[i : i + 32], torch.arange(32) % 5) for i in (0, 32, 64)]
        more = {"options": OPTIONS.get(name), **more}
        return adapt(net, name, memory, source=source, seed=1, **more)

    return make


@pytest.fixture
def stream(net, make_images):
    """Return drifting batches and the labels that ``bn`` gives their undrifted selves."""

    def make(steps, size):
        teacher, found = adapt(net, "bn"), []
        for t in range(steps):
            clean = make_images(size, seed=1000 + t)
            labels = teacher(clean).argmax(dim=1)
            found.append(((clean * (0.7 + 0.3 * np.cos(t / 9))).clamp(0, 1), labels))
        return found

    return make


def run(adapter, batches, fault=None, at=()):
    """Return the error in per cent, and how many faults hit; every prediction must be finite.

    ``at`` are the steps to break; a dict also says after how many uses of the thing in that step.
    """
    wrong = total = hits = 0
    for step, (images, labels) in enumerate(batches):
        broken = Fault(adapter, at[step] if isinstance(at, dict) and step in at else 0)
        if step in at:
            FAULTS[fault](broken)
        logits = adapter(images)
        hits += broken.fired
        broken.mend()
        assert logits.shape == (len(images), adapter.setup.num_classes)
        assert logits.isfinite().all()
        wrong += int((logits.argmax(dim=1) != labels).sum())
        total += len(labels)
    assert all(t.isfinite().all() for t in adapter.state.tensors.values())
    return 100 * wrong / total, hits


def possible(name, fault):
    """Return whether the method has what the fault breaks."""
    has = {"out_of_memory": True, "corrupted_statistics": name not in ("source", "bn", "lame")}
    return has.get(fault, name not in NOTHING_LEARNED)


@pytest.mark.parametrize(
    ("name", "memory", "fault"),
    [(name, memory, fault) for name, memory in CASES for fault in FAULTS if possible(name, fault)],
)
def test_faults_cost_no_prediction_and_hardly_any_error(build, stream, name, memory, fault):
    batches = stream(10, 64)
    clean, _ = run(build(name, memory), batches)
    adapter = build(name, memory)
    error, hits = run(adapter, batches, fault, {3, 7})
    assert abs(error - clean) <= 3
    assert hits == 2
    if name in SELECTIVE and fault == "nan_gradient":
        assert adapter.counts["skipped"] <= 2
    elif name not in NOTHING_LEARNED:
        assert adapter.counts["skipped"] == 2
    assert adapter.counts["restored"] == 0


@pytest.mark.parametrize("memory", [None, "mcm"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_breaks_once_is_tried_again_and_costs_nothing(build, stream, fault, memory):
    clean, faulty = (build("note", memory) for _ in range(2))  # the view of NOTE draws nothing
    for step, (images, _) in enumerate(stream(8, 64)):
        expected, broken = clean(images), Fault(faulty)
        if step in (2, 5):
            FAULTS[fault](broken)
        assert torch.equal(faulty(images), expected)
        assert broken.fired == (step in (2, 5))
        broken.mend()
    assert faulty.counts == {**clean.counts, "skipped": 2}
    assert torch.equal(faulty.method.student.affine, clean.method.student.affine)
    assert len(faulty.memory) == len(clean.memory)


@pytest.mark.parametrize("method", ["note", "rotta"])
def test_what_breaks_twice_is_left_out(build, stream, method):
    adapter = build(method)
    (images, _), (more, _) = stream(2, 64)
    adapter(images)
    before = adapter.method.student.affine.clone()
    adapter.method.optimizer.step = raising(RuntimeError("never again")).__get__(
        adapter.method.optimizer
    )
    assert adapter(more).isfinite().all()
    assert torch.equal(adapter.method.student.affine, before)
    assert adapter.counts["skipped"] == 1


@pytest.fixture(scope="module")
def real():
    """Return the embedded model, 100 batches of 64 of shapes-c (PTTA), and source batches."""
    clean = data.load("shapes-c").source("test").whole()
    source = [(clean.images[i : i + 64], clean.labels[i : i + 64]) for i in (0, 64)]
    config = data.StreamConfig(protocol="ptta", batch_size=64, limit=6600, seed=0)
    stream = data.Stream(data.load("shapes-c"), config)
    labels = torch.from_numpy(stream.labels)
    batches = [(stream[i].images, labels[64 * i : 64 * i + 64]) for i in range(100)]
    return models.load("shapes-wrn10-1"), batches, source


def forwards(monkeypatch, adapter, batches):
    """Run, and return the error and how many passes each step took."""
    passes, original = [], Network._forward

    def counted(self, images):
        passes[-1] += 1
        return original(self, images)

    def counting():
        for batch in batches:
            passes.append(0)
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(Network, "_forward", counted)
        return run(adapter, counting())[0], passes


@pytest.mark.slow
@pytest.mark.parametrize(("name", "memory"), EVERY_CASE)
def test_five_per_cent_of_100_steps_broken_cost_less_than_a_point(
    real, name, memory, capsys, monkeypatch
):
    model, batches, source = real
    options = {"cotta": {"views": 4, "confidence": 1.0}, "rmt": {"warmup_images": 64}}.get(name)

    def made():
        return adapt(model, name, memory, source=source, options=options)

    clean, passes = forwards(monkeypatch, made(), batches)
    errors, cells = [clean], []
    for fault in FAULTS:
        if not possible(name, fault):
            cells.append("-")
            continue
        draw = np.random.default_rng([0, EVERY_CASE.index((name, memory)), *map(ord, fault)])
        steps, late = draw.permutation(100)[:5].tolist(), {}
        for step in steps:  # memory runs out in any pass: to predict, to learn, or to look
            late[step] = int(draw.integers(passes[step])) if fault == "out_of_memory" else 0
        adapter = made()
        error, hits = run(adapter, batches, fault, late)
        assert hits == 5
        errors.append(error)
        cells.append(f"{error:.2f} ({adapter.counts['skipped']})")
    with capsys.disabled():
        print("\n|", " | ".join([name, memory or "", f"{clean:.2f}", *cells]), end=" | ")
    assert all(abs(error - clean) <= 1 for error in errors)


@pytest.mark.parametrize("part", ["add", "retrieve"])
@pytest.mark.parametrize("bank", [None, *BANKS])
@pytest.mark.parametrize("name", MEMORY_METHODS)
def test_a_memory_that_fails_once_costs_no_prediction(build, stream, name, bank, part):
    adapter = build(name, bank)
    for step, (images, _) in enumerate(stream(5, 64)):
        broken = Fault(adapter)
        if step == 2:
            broken.patch(adapter.memory, part, raising(torch.OutOfMemoryError("none left")))
        assert adapter(images).isfinite().all()
        broken.mend()
    assert adapter.counts["skipped"] == 1
    assert adapter.state_dict()["number.seen"] == 4 * 64  # that batch was not learned from


@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_always_fails_raises_and_changes_nothing(
    build, make_images, monkeypatch, name
):
    adapter = build(name)
    adapter(make_images(64, seed=0))
    before = adapter.state_dict()
    monkeypatch.setattr(Network, "_forward", raising(RuntimeError("broken")))
    with pytest.raises(RuntimeError, match="broken"):
        adapter(make_images(64, seed=1))
    after = adapter.state_dict()
    # A view may have been drawn before the model failed; nothing else has moved.
    moved = {k for k in before if not torch.equal(before[k], after[k])}
    assert moved <= {"generator.draws", "generator.noise", "number.replayed"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5])
@pytest.mark.parametrize("name", METHODS)
def test_after_a_bad_image_it_goes_on_as_if_it_had_not_come(build, make_images, name, value):
    one, other = build(name), build(name)
    for t in range(4):
        x = make_images(40, seed=t)
        bad = x.clone()
        bad[3, 1, 2, 2] = value
        with pytest.raises(ValueError, match="images must"):
            one(bad)
        assert torch.equal(one(x), other(x))
    first, second = one.state_dict(), other.state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)


def test_logits_beyond_every_number_come_from_the_last_good_state(build, make_images):
    adapter = build("tent")
    adapter(make_images(64, seed=0))
    expected = adapter.predict(make_images(64, seed=1))
    with torch.no_grad():
        adapter.method.student.affine.fill_(1e38)  # finite, and far too large
    torch.testing.assert_close(adapter(make_images(64, seed=1)), expected)
    assert adapter.method.student.affine.abs().max() < 100


def test_an_interrupted_update_leaves_the_state_before_it(build, make_images):
    adapter = build("rotta")
    adapter(make_images(64, seed=0))
    before = adapter.method.student.statistics.clone()
    fault = Fault(adapter)
    fault.patch(adapter.method.optimizer, "step", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        adapter(make_images(64, seed=1))
    assert torch.equal(adapter.method.student.statistics, before)
