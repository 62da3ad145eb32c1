from __future__ import annotations

import json

import pytest

from multipool.bench.sweep import Options, make_plan, sweep, with_trials


def test_a_plan_estimates_from_what_is_done_else_from_a_trial(inline, tmp_path, loader, seeds):
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


def test_a_trial_of_what_cannot_run_gives_no_estimate(tmp_path, loader, monkeypatch, seeds):
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
