import dataclasses
import json
import math

import pytest
import torch

from multipool.bench.report.report import report
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.live import Live
from multipool.bench.run.runner import run
from multipool.bench.run.session import Session

SMALL = {"batch_size": 8, "device": "cpu"}


def go_down(monkeypatch, after):
    """Let a run die after so many batches."""
    real = Session.step

    def step(self, images):
        if self.batches == after:
            raise MemoryError("the machine went down")
        real(self, images)

    monkeypatch.setattr(Session, "step", step)


def recorded(loader, **options):
    return run(Experiment(**SMALL, **options), loader=loader, diagnose=True)


def test_recording_changes_nothing_else(loader):
    alone = run(Experiment(method="rotta", memory="mcm", **SMALL), loader=loader).as_dict()
    found = recorded(loader, method="rotta", memory="mcm").as_dict()
    assert alone["diagnostics"] == []
    for key in alone.keys() - {"diagnostics", "timing", "host", "samples_per_second"}:
        assert found[key] == alone[key], key
    assert found["timing"]["diagnose"] > 0


def test_points_cover_the_stream_and_end_with_the_run_s_own_counts(loader):
    result = recorded(loader, method="petta", memory="mcm")
    samples = [point["samples"] for point in result.diagnostics]
    assert samples == [point["samples"] for point in result.curve]
    last = result.diagnostics[-1]
    assert last["updates"] == result.counts["updates"]
    assert last["replaced"] == result.memory["events"]["replaced"]
    assert sum(last["sizes"]) > 0
    assert all(math.isfinite(point["entropy"]) for point in result.diagnostics)
    assert any(point["loss"] is not None for point in result.diagnostics)
    assert 0 < last["memory"]["coverage"] <= 1
    json.dumps(result.as_dict(), allow_nan=False)


def test_a_method_without_memory_or_updates_has_points_too(loader):
    result = recorded(loader, method="source")
    assert {point["loss"] for point in result.diagnostics} == {None}
    assert {point["memory"] for point in result.diagnostics} == {None}


@pytest.mark.parametrize(("method", "memory"), [("rotta", "mcm"), ("tent", None)])
def test_an_interrupted_recording_continues_bit_for_bit(
    loader, tmp_path, monkeypatch, method, memory
):
    monkeypatch.setattr("multipool.bench.run.live._INTERVAL", 48)
    experiment = Experiment(method=method, memory=memory, **SMALL)
    whole = run(experiment, loader=loader, diagnose=True)
    go_down(monkeypatch, after=17)
    with pytest.raises(MemoryError):
        run(experiment, tmp_path, checkpoint_every=5, loader=loader, diagnose=True)
    monkeypatch.undo()
    monkeypatch.setattr("multipool.bench.run.live._INTERVAL", 48)
    again = run(experiment, tmp_path, resume=True, loader=loader, diagnose=True)
    assert again.diagnostics == whole.diagnostics


def test_a_run_begun_without_recording_cannot_go_on_with_it(loader, tmp_path, monkeypatch):
    experiment = Experiment(method="bn", **SMALL)
    go_down(monkeypatch, after=17)
    with pytest.raises(MemoryError):
        run(experiment, tmp_path, checkpoint_every=5, loader=loader)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="begun without --diagnose"):
        run(experiment, tmp_path, resume=True, loader=loader, diagnose=True)


class _Teller:
    """Stands for an adapter whose loss and logits are not finite."""

    memory, device = None, torch.device("cpu")

    def observe(self, callback):
        self.tell = callback


def test_what_is_not_finite_is_none():
    teller = _Teller()
    live = Live(teller, 4, lambda: {"counts": {}, "events": {}})
    teller.tell({"loss": float("nan"), "memory": None})
    live.see(torch.zeros(4, 3, 2, 2), torch.full((4, 5), float("nan")))
    (point,) = live.points
    assert (point["loss"], point["entropy"]) == (None, None)


def test_means_of_a_stretch_by_hand():
    teller = _Teller()
    live = Live(teller, 4, lambda: {"counts": {"updates": 2}, "events": {}})
    for loss in (1.0, 3.0):
        teller.tell({"loss": loss, "memory": 7})
        live.see(torch.zeros(2, 3, 2, 2), torch.zeros(2, 5))  # uniform over 5 classes
    (point,) = live.points
    assert point["loss"] == 2.0
    assert point["entropy"] == pytest.approx(math.log(5))
    assert point["sizes"] == [7]
    live.finish()  # nothing came since
    assert len(live.points) == 1


def test_the_report_shows_what_was_recorded(loader, tmp_path):
    result = recorded(loader, method="rotta", memory="mcm")
    result.write(tmp_path / "with")
    other = {**result.settings, "seed": 1}
    plain = dataclasses.replace(result, diagnostics=[], seed=1, settings=other)
    plain.write(tmp_path / "without")
    page = report(tmp_path).read_text(encoding="utf-8")
    assert "<h3>Diagnostics</h3>" in page
    table = (tmp_path / "figures" / "diagnostics.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + len(result.diagnostics)
