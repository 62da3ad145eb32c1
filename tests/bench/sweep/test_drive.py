"""A whole sweep, in this process: what is done, skipped, failed, waited for and written."""

from __future__ import annotations

import csv
import json
import statistics

import pytest

from multipool.bench.report.report import report
from multipool.bench.run import checkpoint
from multipool.bench.sweep import Options, expand, make_plan, sweep, with_trials
from multipool.bench.sweep import ledger as ledgers
from multipool.bench.sweep.ledger import FOUND, JOURNAL, SweepLedger
from multipool.bench.sweep.planned import FAILED
from multipool.bench.sweep.ray_backend import _on_node, connect
from multipool.bench.sweep.work import BROKEN, DONE, STOPPED, Outcome, execute

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


@pytest.fixture
def inline(loader_class, monkeypatch):
    """A backend that does everything here, with the tiny dataset and model."""
    monkeypatch.setattr(ledgers, "POLL", 0.0)
    loader = loader_class()

    def backend(ledger, runs, options):
        while not ledger.settled:
            run = ledger.next()
            if run is not None:
                ledger.settle(run, execute(run, run.folder(ledger.out), loader))

    return backend


def seeds(count, **base):
    content = {"base": {"method": "source", **SMALL, **base}, "grid": {"seed": list(range(count))}}
    return expand(content)


def events(out, kind):
    lines = [json.loads(line) for line in (out / JOURNAL).read_text().splitlines()]
    return [line["run"] for line in lines if line["event"] == kind]


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_run_gets_its_folder_and_a_second_sweep_does_nothing(inline, tmp_path):
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


def test_a_wider_grid_does_only_what_is_new(inline, tmp_path):
    sweep(seeds(2), tmp_path, backend=inline)
    ended = sweep(seeds(4), tmp_path, backend=inline)
    assert len(ended.done) == 4
    assert len(ended.found) == 2
    assert len(events(tmp_path, "started")) == 4


def test_a_failed_run_says_why_and_does_not_stop_the_rest(
    inline, tmp_path, loader_class, monkeypatch
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
    monkeypatch.undo()
    monkeypatch.setattr(ledgers, "POLL", 0.0)
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


def test_a_useless_checkpoint_means_to_start_again(tmp_path, loader):
    (run,) = seeds(1)
    folder = run.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / checkpoint.FILE).write_text("not a checkpoint")
    assert execute(run, folder, loader).state == DONE
    assert not (folder / checkpoint.FILE).exists()


def test_a_damaged_result_is_made_again(inline, tmp_path):
    (run,) = seeds(1)
    folder = run.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{")
    assert sweep([run], tmp_path, backend=inline).found == ()
    assert json.loads((folder / "result.json").read_text())["complete"]


def test_two_sweeps_on_one_folder_share_the_work(tmp_path, loader, monkeypatch):
    monkeypatch.setattr(ledgers, "POLL", 0.0)
    runs = seeds(5)
    with SweepLedger(runs, tmp_path) as one, SweepLedger(runs, tmp_path) as two:
        turns = [one, two, two, one, one]
        taken = [(ledger, ledger.next()) for ledger in turns]
        assert {run.name for _, run in taken} == {run.name for run in runs}
        assert one.next() is None
        assert two.next() is None
        assert not one.settled
        for ledger, run in taken:
            ledger.settle(run, execute(run, run.folder(tmp_path), loader))
        assert one.next() is None
        assert two.next() is None
        assert one.settled
        assert two.settled
        assert len(one.found) == 2
        assert len(two.found) == 3
    assert sorted(events(tmp_path, "done")) == sorted(run.name for run in runs)


def test_a_run_that_another_sweep_abandons_is_taken_over(tmp_path, loader, monkeypatch):
    monkeypatch.setattr(ledgers, "POLL", 0.0)
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as mine:
        with SweepLedger([run], tmp_path) as other:
            assert other.next() is run
            assert mine.next() is None
        assert mine.next() is run


def test_a_failure_that_another_sweep_has_just_seen_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, "POLL", 0.0)
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as mine, SweepLedger([run], tmp_path) as other:
        other.settle(other.next(), Outcome("failed", sentence="no luck"))
        assert mine.next() is None
        assert mine.outcomes[run.name].sentence == "no luck"


def test_a_run_whose_worker_dies_is_tried_again_but_not_for_ever(tmp_path):
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path, retries=2) as ledger:
        for _ in range(3):
            assert ledger.next() is run
            ledger.lost(run, "killed by SIGKILL")
        assert ledger.settled
        said = ledger.outcomes[run.name].sentence
    assert said == "its worker died 3 times, the last time: killed by SIGKILL"
    assert events(tmp_path, "lost") == [run.name] * 2
    assert (run.folder(tmp_path) / FAILED).exists()


def test_a_run_that_somebody_else_interrupts_is_queued_again(tmp_path):
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as ledger:
        ledger.settle(ledger.next(), Outcome(STOPPED))
        assert not ledger.settled
        assert ledger.next() is run
        ledger.stopping = True
        ledger.settle(run, Outcome(STOPPED))
        assert not ledger.settled
        assert ledger.next() is None


def test_a_run_whose_gpu_failed_is_tried_again_and_then_says_why(tmp_path):
    torn = Outcome(BROKEN, sentence="CUDA error: misaligned address", reusable=False)
    with SweepLedger(seeds(2), tmp_path, retries=1) as ledger:
        first = ledger.next()
        ledger.settle(first, torn)
        assert not ledger.outcomes
        second = ledger.next()
        assert second is not first  # behind the others
        ledger.settle(second, Outcome(DONE, error=1.0))
        assert ledger.next() is first
        ledger.settle(first, torn)
    assert ledger.outcomes[first.name].sentence == torn.sentence
    assert ledger.outcomes[second.name].state == DONE
    assert events(tmp_path, "lost") == [first.name]


def test_a_worker_that_dies_after_writing_its_result_has_not_lost_it(tmp_path, loader):
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as ledger:
        execute(ledger.next(), run.folder(tmp_path), loader)
        ledger.lost(run, "killed by SIGKILL")
        assert ledger.outcomes[run.name].state == DONE


def test_a_worker_is_given_what_it_has_loaded(tmp_path):
    content = {
        "base": {"method": "source", **SMALL},
        "grid": {"severity": [3, 5], "seed": [0, 1]},
    }
    runs = expand(content)
    with SweepLedger(runs, tmp_path) as ledger:
        first = ledger.next()
        other = next(run for run in runs if run.load_key != first.load_key)
        assert ledger.next(other.load_key).load_key == other.load_key
        assert ledger.next(first.load_key).load_key == first.load_key


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


def test_a_report_reads_the_folder_of_a_sweep(inline, tmp_path):
    sweep(seeds(2), tmp_path, backend=inline)
    assert "2 runs" in report(tmp_path).read_text()


def test_the_tables_are_written_although_the_sweep_is_interrupted(inline, tmp_path):
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


def test_a_plan_estimates_from_what_is_done_else_from_a_trial(inline, tmp_path, loader):
    runs = seeds(4)
    fresh = make_plan(runs, tmp_path)
    assert (len(fresh.done), len(fresh.todo), fresh.unknown, fresh.left(2)) == (0, 4, 4, None)
    tried = with_trials(fresh, loader=loader)
    assert tried.unknown == 0
    assert 0 < tried.left(2) < 60
    sweep(runs[:1], tmp_path, backend=inline)
    half = make_plan(runs, tmp_path)
    assert [run.experiment.seed for run in half.done] == [0]
    content = json.loads((runs[0].folder(tmp_path) / "result.json").read_text())
    each = content["timing"]["load"] + content["timing"]["stream"]
    assert half.left(1) == pytest.approx(3 * each)
    assert half.left(3) == pytest.approx(each)
    assert half.left(100) == pytest.approx(each)  # no more workers than runs


def test_a_trial_of_what_cannot_run_gives_no_estimate(tmp_path, loader, monkeypatch):
    def missing(experiment):
        raise FileNotFoundError("no data")

    monkeypatch.setattr(loader, "dataset", missing)
    assert with_trials(make_plan(seeds(1), tmp_path), loader=loader).left(1) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"cpus": 0}, "cpus must be greater than 0"),
        ({"gpus": -0.5}, "gpus must be at least 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Options(**options)


def test_an_unknown_backend_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="unknown backend 'cloud'.*local, ray"):
        sweep(seeds(1), tmp_path, backend="cloud")


def test_without_ray_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'multipool\[ray\]'"):
        connect(Options())


def test_a_node_without_the_folder_sends_its_result_back(tmp_path, loader, monkeypatch):
    monkeypatch.setattr("multipool.bench.sweep.ray_backend._loader", lambda: loader)
    (run,) = seeds(1)
    folder = run.folder(tmp_path)
    with SweepLedger([run], tmp_path) as ledger:
        ledger.next()
        outcome = _on_node(run, tmp_path / "not here", tmp_path / "no marker", 0)
        assert not (folder / "result.json").exists()
        ledger.settle(run, outcome)
    assert json.loads((folder / "result.json").read_text())["complete"]
