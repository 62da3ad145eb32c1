"""A whole sweep, in this process: what is done, skipped, failed, waited for and written."""

from __future__ import annotations

import csv
import json
import statistics

import pytest

from multipool.bench.report.report import report
from multipool.bench.run import checkpoint
from multipool.bench.run import loader as loading
from multipool.bench.sweep import Options, expand, make_plan, sweep
from multipool.bench.sweep.ledger import FOUND, SweepLedger
from multipool.bench.sweep.planned import FAILED
from multipool.bench.sweep.ray_backend import _on_node
from multipool.bench.sweep.work import DONE, STOPPED, execute
from multipool.core.cluster import connect

SMALL = {"batch_size": 8, "device": "cpu"}
GRID = {
    "base": SMALL,
    "grid": {
        "method": ["rotta", "resitta"],
        "memory": ["single", {"name": "mcm", "label": "tight", "options": {"threshold": 0.1}}],
        "seed": [0, 1, 2],
    },
    "runs": [{"method": "source"}],
}


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_run_gets_its_folder_and_a_second_sweep_does_nothing(inline, tmp_path, seeds, events):
    runs = seeds(3)
    first = sweep(runs, tmp_path, backend=inline)
    assert set(first.done) == {run.name for run in runs}
    assert first.found == ()
    assert first.failed == {}
    files = [run.folder(tmp_path) / "result.json" for run in runs]
    before = [file.read_bytes() for file in files]
    told = []
    second = sweep(runs, tmp_path, backend=inline, tell=told.append)
    assert set(second.found) == set(second.done) == set(first.done)
    assert [news.state for news in told] == [FOUND] * 3
    assert [file.read_bytes() for file in files] == before
    assert sorted(events(tmp_path, "started")) == sorted(run.name for run in runs)
    assert not list(tmp_path.rglob("claim.json"))


def test_a_wider_grid_does_only_what_is_new(inline, tmp_path, seeds, events):
    sweep(seeds(2), tmp_path, backend=inline)
    ended = sweep(seeds(4), tmp_path, backend=inline)
    assert len(ended.done) == 4
    assert len(ended.found) == 2
    assert len(events(tmp_path, "started")) == 4


def test_a_failed_run_says_why_and_does_not_stop_the_rest(
    inline, tmp_path, loader_class, monkeypatch, seeds
):
    runs = seeds(3)
    bad = runs[1]
    real = loader_class.dataset

    def dataset(self, experiment):
        if experiment.seed == 1:
            raise RuntimeError("the disk\nis gone")
        return real(self, experiment)

    monkeypatch.setattr(loader_class, "dataset", dataset)
    ended = sweep(runs, tmp_path, backend=inline)
    assert len(ended.done) == 2
    assert ended.failed == {bad.name: "RuntimeError: the disk is gone"}
    told = json.loads((bad.folder(tmp_path) / FAILED).read_text())
    assert told["error"] == "RuntimeError: the disk is gone"
    assert "in dataset" in told["traceback"]
    assert make_plan(runs, tmp_path).failed == ended.failed
    monkeypatch.setattr(loader_class, "dataset", real)
    again = sweep(runs, tmp_path, backend=inline)
    assert (len(again.done), len(again.found), again.failed) == (3, 2, {})
    assert not (bad.folder(tmp_path) / FAILED).exists()


def test_an_interrupted_run_goes_on_from_its_checkpoint(inline, tmp_path, loader, monkeypatch):
    from multipool.bench.run.runner import Session

    (run,) = expand({"base": {**SMALL, "method": "rotta"}, "runs": [{}]})
    whole = execute(run, tmp_path / "whole", loader)
    real, shown = Session.step, []

    def step(self, images):
        real(self, images)
        shown.append(self.batches)
        if len(shown) == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(Session, "step", step)
    folder = run.folder(tmp_path)
    assert execute(run, folder, loader, checkpoint_every=5).state == STOPPED
    assert (folder / checkpoint.FILE).exists()
    ended = sweep([run], tmp_path, backend=inline)
    assert ended.done == (run.name,)
    assert shown[12] == 11  # batches 1 to 10 were in the checkpoint
    assert json.loads((folder / "result.json").read_text())["error"] == whole.error


def test_a_useless_checkpoint_means_to_start_again(tmp_path, loader, seeds):
    (run,) = seeds(1)
    folder = run.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / checkpoint.FILE).write_text("not a checkpoint")
    assert execute(run, folder, loader).state == DONE
    assert not (folder / checkpoint.FILE).exists()


def test_a_damaged_result_is_made_again(inline, tmp_path, seeds):
    (run,) = seeds(1)
    folder = run.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{")
    assert sweep([run], tmp_path, backend=inline).found == ()
    assert json.loads((folder / "result.json").read_text())["complete"]


def test_tables_hold_every_run_means_over_seeds_and_paired_differences(inline, tmp_path):
    runs = expand(GRID)
    ended = sweep(runs, tmp_path, backend=inline)
    lines = rows(ended.results)
    assert len(lines) == 13
    assert {line["run"] for line in lines} == {run.name for run in runs}
    assert {"error dark", "seconds memory", "set.memory.threshold", "updates"} <= set(lines[0])
    assert not {"limit", "set.lr", "gamma"} & set(lines[0])  # the same in every run
    error = {}
    for line in lines:
        error.setdefault((line["method"], line["label"]), {})[line["seed"]] = float(line["error"])
    for line in rows(tmp_path / "summary.csv"):
        label = line["name"] if line["name"] == "tight" else ""
        values = list(error[(line["method"], label)].values())
        assert float(line["error"]) == pytest.approx(statistics.fmean(values), abs=1e-3)
        if len(values) > 1:
            assert float(line["std"]) == pytest.approx(statistics.stdev(values), abs=1e-3)
    found = rows(tmp_path / "differences.csv")
    assert [(d["method"], d["memory"], d["against"], d["seeds"]) for d in found] == [
        ("resitta", "tight", "single", "3"),
        ("rotta", "tight", "single", "3"),
    ]
    for line in found:
        mcm, own = error[(line["method"], "tight")], error[(line["method"], "")]
        gaps = [mcm[seed] - own[seed] for seed in own]
        assert float(line["difference"]) == pytest.approx(statistics.fmean(gaps), abs=1e-3)
        spread = statistics.stdev(gaps) / 3**0.5
        assert float(line["standard error"]) == pytest.approx(spread, abs=1e-3)


def test_a_report_reads_the_folder_of_a_sweep(inline, tmp_path, seeds):
    sweep(seeds(2), tmp_path, backend=inline)
    assert "2 runs" in report(tmp_path).read_text()


def test_the_tables_are_written_although_the_sweep_is_interrupted(inline, tmp_path, seeds):
    runs = seeds(2)

    def stop(ledger, runs, options):
        sweep([ledger.next()], tmp_path / "elsewhere", backend=inline)
        raise KeyboardInterrupt

    sweep(runs[:1], tmp_path, backend=inline)
    (tmp_path / "results.csv").unlink()
    with pytest.raises(KeyboardInterrupt):
        sweep(runs, tmp_path, backend=stop)
    assert len(rows(tmp_path / "results.csv")) == 1
    assert not list((tmp_path / "runs").rglob("claim.json"))


def test_an_unknown_backend_is_a_sentence(tmp_path, seeds):
    with pytest.raises(ValueError, match="unknown backend 'cloud'.*local, ray"):
        sweep(seeds(1), tmp_path, backend="cloud")


def test_without_ray_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'multipool\[ray\]'"):
        connect("auto", 1)


def test_a_node_without_the_folder_sends_its_result_back(tmp_path, loader, monkeypatch, seeds):
    monkeypatch.setattr("multipool.bench.sweep.ray_backend._loader", lambda: loader)
    (run,) = seeds(1)
    folder = run.folder(tmp_path)
    with SweepLedger([run], tmp_path) as ledger:
        ledger.next()
        outcome = _on_node(run, tmp_path / "not here", tmp_path / "no marker", 0)
        assert not (folder / "result.json").exists()
        ledger.settle(run, outcome)
    assert json.loads((folder / "result.json").read_text())["complete"]


def test_weights_that_were_replaced_make_a_run_again(inline, tmp_path, seeds, monkeypatch):
    runs = seeds(2)
    sweep(runs, tmp_path, backend=inline)
    monkeypatch.setattr(loading, "weights_digest", lambda name, architecture=None: "another")
    assert make_plan(runs, tmp_path).done == ()
    again = sweep(runs, tmp_path, backend=inline, options=Options(retries=0))
    assert again.found == ()


def test_weights_that_cannot_be_read_fail_the_run_and_cost_no_result(
    inline, tmp_path, seeds, monkeypatch
):
    (run,) = seeds(1)
    sweep([run], tmp_path, backend=inline)
    before = (run.folder(tmp_path) / "result.json").read_bytes()

    def unreadable(name, architecture=None):
        raise ValueError(f"{name} is not a readable safetensors file")

    monkeypatch.setattr(loading, "weights_digest", unreadable)
    ended = sweep([run], tmp_path, backend=inline)
    assert "is not a readable safetensors file" in ended.failed[run.name]
    assert (run.folder(tmp_path) / "result.json").read_bytes() == before


def test_a_file_that_is_no_result_costs_its_own_line_of_the_tables(inline, tmp_path, seeds):
    sweep(seeds(2), tmp_path, backend=inline)
    (tmp_path / "runs" / "foreign").mkdir()
    (tmp_path / "runs" / "foreign" / "result.json").write_text('{"error": 1}')
    with pytest.warns(UserWarning, match="left out: .*foreign"):
        ended = sweep(seeds(3), tmp_path, backend=inline)
    assert len(rows(ended.results)) == 3
