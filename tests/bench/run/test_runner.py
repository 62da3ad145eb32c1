from __future__ import annotations

import importlib.metadata
import json
import signal

import pytest
import torch

from multipool.bench.run import checkpoint
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.result import VARYING, read
from multipool.bench.run.runner import Interrupted, Progress, run
from multipool.data import Stream, StreamConfig

SMALL = {"batch_size": 8, "device": "cpu"}


def steady(result):
    content = json.loads(json.dumps(result.as_dict()))
    return {key: value for key, value in content.items() if key not in VARYING}


def test_the_source_models_error_is_that_of_counting_by_hand(loader):
    experiment = Experiment(method="source", **SMALL)
    result = run(experiment, loader=loader)
    data, model = loader.dataset(None), loader.model(None, 4, "cpu")
    for domain in data.domains:
        labels = torch.from_numpy(data.labels(domain))
        images = data.images(domain, range(len(labels))).float() / 255
        with torch.no_grad():
            wrong = (model(images).argmax(1) != labels).float().mean()
        assert result.errors[domain] == pytest.approx(100 * float(wrong), abs=1e-3)
    assert result.error == pytest.approx(sum(result.errors.values()) / 3, abs=1e-3)
    assert 0 < result.error < 75


def test_the_source_models_error_does_not_depend_on_batches_or_order(loader):
    runs = [
        run(Experiment(method="source", device="cpu", **options), loader=loader).errors
        for options in ({"batch_size": 7}, {"batch_size": 64, "seed": 5}, {"protocol": "ctta"})
    ]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("method", ["source", "bn", "rotta"])
def test_the_same_run_twice_differs_in_time_only(loader, tmp_path, method):
    experiment = Experiment(method=method, **SMALL)
    first, second = (run(experiment, tmp_path / name, loader=loader) for name in "ab")
    assert steady(first) == steady(second)
    on_disk = [(tmp_path / name / "result.json").read_text() for name in "ab"]
    assert [json.loads(text)["error"] for text in on_disk] == [first.error] * 2
    assert read(tmp_path / "a" / "result.json").as_dict() == json.loads(on_disk[0])


def test_a_result_tells_what_was_done(loader):
    result = run(Experiment(method="rotta", memory="mcm", **SMALL), loader=loader)
    assert result.complete
    assert result.samples == result.total == 270
    assert result.counts["updates"] == 4  # 270 samples, one update every 64
    assert result.memory is not None
    assert result.memory["events"]["added"] == 270
    assert sum(result.memory["sizes"]) == result.memory["size"]
    assert set(result.timing) >= {"load", "stream", "predict", "memory", "adapt"}
    assert result.settings["options"]["lr"] == 1e-3
    assert result.versions["torch"] == importlib.metadata.version("torch")
    assert [change["domain"] for change in result.changes] == ["dark", "plain", "bright"]
    assert [change["sample"] for change in result.changes] == [0, 90, 180]


def test_the_curve_averages_to_the_error_over_all_samples(loader):
    result = run(Experiment(method="source", **SMALL), loader=loader)
    loader.per_domain = 500
    longer = run(Experiment(method="source", **SMALL), loader=loader)
    # 188 batches of 8 in at least 15 points: 12 batches each
    assert [p["samples"] for p in longer.curve] == [*range(96, 1500, 96), 1500]
    for found in (result, longer):
        ends = [0, *(p["samples"] for p in found.curve)]
        weights = [b - a for a, b in zip(ends, ends[1:], strict=False)]
        total = sum(w * p["error"] for w, p in zip(weights, found.curve, strict=True))
        assert total / found.samples == pytest.approx(found.error, abs=1e-2)


def test_recurring_streams_report_every_round(loader):
    result = run(Experiment(method="bn", protocol="recurring", rounds=3, **SMALL), loader=loader)
    assert len(result.rounds) == 3
    assert result.samples == 3 * 270
    means = [entry["error"] for entry in result.rounds]
    assert sum(means) / 3 == pytest.approx(result.error, abs=1e-3)
    assert [c["round"] for c in result.changes] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_last_batch_of_one_is_not_scored_unless_batches_have_one(loader):
    loader.per_domain = 43  # 129 samples: 16 batches of 8 and one sample
    assert run(Experiment(method="source", **SMALL), loader=loader).samples == 128
    assert (
        run(Experiment(method="source", batch_size=1, device="cpu"), loader=loader).samples == 129
    )


def test_labels_never_reach_the_method(loader, monkeypatch):
    seen = []
    import multipool.bench.run.session as session

    real = session.methods.adapt

    def adapt(*args, **kwargs):
        adapter = real(*args, **kwargs)
        adapter.register_forward_pre_hook(lambda module, given: seen.append(given))
        return adapter

    monkeypatch.setattr(session.methods, "adapt", adapt)
    run(Experiment(method="source", **SMALL), loader=loader)
    assert seen
    assert all(len(given) == 1 and given[0].dtype == torch.uint8 for given in seen)


@pytest.mark.parametrize(
    ("method", "memory"), [("rotta", "mcm"), ("petta", "single"), ("bn", None)]
)
def test_an_interrupted_run_continues_bit_for_bit(loader, tmp_path, method, memory):
    # A shell that starts tests in the background has them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    experiment = Experiment(method=method, memory=memory, **SMALL)
    whole = run(experiment, tmp_path / "whole", loader=loader)

    def stop(step: Progress):
        if step.total:
            signal.raise_signal(signal.SIGINT)

    out = tmp_path / "part"
    with pytest.raises(Interrupted) as caught:
        run(experiment, out, stop, loader=loader)
    part = read(out / "result.json")
    assert not part.complete
    assert 0 < part.samples < whole.samples
    assert caught.value.result.samples == part.samples
    again = run(experiment, out, resume=True, loader=loader)
    assert steady(again) == steady(whole)
    assert not (out / checkpoint.FILE).exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_continues_from_its_last_regular_checkpoint(loader, tmp_path, monkeypatch):
    import multipool.bench.run.runner as runner

    experiment = Experiment(method="rotta", **SMALL)
    whole = run(experiment, loader=loader)
    real = runner.Session.step

    def step(self, images):
        if self.batches == 20:
            raise MemoryError("the machine went down")
        real(self, images)

    monkeypatch.setattr(runner.Session, "step", step)
    with pytest.raises(MemoryError):
        run(experiment, tmp_path, checkpoint_every=6, loader=loader)
    monkeypatch.setattr(runner.Session, "step", real)
    assert not (tmp_path / "result.json").exists()
    saved = checkpoint.read(tmp_path, experiment.settings())
    assert saved is not None
    assert saved.batches == 18
    again = run(experiment, tmp_path, resume=True, loader=loader)
    assert steady(again) == steady(whole)


def test_resume_returns_a_complete_result_and_refuses_another_experiment(loader, tmp_path):
    experiment = Experiment(method="source", **SMALL)
    first = run(experiment, tmp_path, loader=loader)
    again = run(experiment, tmp_path, resume=True, loader=None)
    assert again.as_dict() == json.loads(json.dumps(first.as_dict()))
    with pytest.raises(ValueError, match="belongs to a run with seed = 0, this one has 1"):
        run(Experiment(method="source", seed=1, **SMALL), tmp_path, resume=True, loader=loader)


def test_a_damaged_checkpoint_is_told(loader, tmp_path):
    (tmp_path / checkpoint.FILE).write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        run(Experiment(method="source", **SMALL), tmp_path, resume=True, loader=loader)


def test_interrupted_while_loading_leaves_an_older_result(loader, tmp_path):
    experiment = Experiment(method="source", **SMALL)
    done = run(experiment, tmp_path / "old", loader=loader).as_dict()
    partial = json.dumps({**done, "complete": False})
    (tmp_path / "old" / "result.json").write_text(partial)

    def stop(step: Progress):
        raise KeyboardInterrupt

    for name, resume in (("old", True), ("new", False)):
        with pytest.raises(Interrupted):
            run(experiment, tmp_path / name, stop, resume=resume, loader=loader)
    assert (tmp_path / "old" / "result.json").read_text() == partial
    fresh = read(tmp_path / "new" / "result.json")
    assert fresh.error is None
    assert not fresh.complete


def test_progress_ends_at_the_whole_stream_with_the_error_so_far(loader):
    steps = []
    result = run(Experiment(method="source", **SMALL), progress=steps.append, loader=loader)
    assert (steps[-1].done, steps[-1].total) == (34, 34)
    assert steps[-1].error == pytest.approx(result.error, abs=1e-3)
    assert steps[0].stage


def test_wrong_calls_are_refused(loader):
    experiment = Experiment(method="source", **SMALL)
    with pytest.raises(ValueError, match="checkpoint_every must be at least 0"):
        run(experiment, checkpoint_every=-1, loader=loader)
    with pytest.raises(ValueError, match="resume needs the folder"):
        run(experiment, resume=True, loader=loader)


def test_a_stream_shorter_than_its_domains_is_refused(loader):
    with pytest.raises(ValueError, match="limit must be at least 3"):
        run(Experiment(method="source", limit=2, **SMALL), loader=loader)


def test_the_fake_dataset_is_a_dataset(loader):
    stream = Stream(loader.dataset(None), StreamConfig(batch_size=8))
    assert stream[0].images.shape == (8, 3, 8, 8)
