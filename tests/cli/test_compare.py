from __future__ import annotations

import json

import pytest

from multipool.bench.sweep import drive, ledger
from multipool.bench.sweep.work import execute

ARGS = ("compare", "--methods", "source,bn", "--kinds", "ctta,mixed", "--device", "cpu")


@pytest.fixture
def inline(tiny, monkeypatch):
    """Do the runs here, with the tiny dataset: worker processes have tests of their own."""

    def backend(work, runs, options):
        while (run := work.next()) is not None:
            work.settle(run, execute(run, run.folder(work.out), tiny()))

    monkeypatch.setattr(ledger, "POLL", 0.0)
    monkeypatch.setattr(drive, "BACKENDS", {"local": backend, "ray": backend})


def test_it_prints_regrets_and_which_method_to_use(call, inline, tmp_path):
    code, out, err = call(*ARGS, "--out", tmp_path)
    assert code == 0
    assert "mean regret" in out
    assert "Without the decoder: Use " in out
    assert "4 runs: 0 done, 4 to do" in err
    assert str(tmp_path / "compare.html") in err.replace("\n", "")
    code, _, err = call(*ARGS, "--out", tmp_path)
    assert code == 0
    assert "4 runs: 4 done, 0 to do" in err


def test_quiet_prints_the_conclusion_alone(call, inline, tmp_path):
    code, out, err = call(*ARGS, "--out", tmp_path, "--quiet", "--decode", "none")
    assert (code, err) == (0, "")
    assert out.startswith("Without the decoder: Use ")
    assert len(out.splitlines()) == 1


def test_json_has_the_standings(call, inline, tmp_path):
    code, out, err = call(*ARGS, "--out", tmp_path, "--json")
    content = json.loads(out)
    assert (code, err) == (0, "")
    plain = content["tables"][-1]
    assert plain["decoded"] is False
    assert {standing["row"] for standing in plain["standings"]} == {"source", "bn"}
    assert all(standing["columns"] == 2 for standing in plain["standings"])


def test_a_failed_run_is_told_and_exits_with_1(call, inline, tmp_path):
    args = ("compare", "--methods", "source", "--kinds", "ctta,gradual", "--device", "cpu")
    code, out, err = call(*args, "--out", tmp_path)
    assert code == 1
    assert "Use source" in out
    assert "needs severities" in err


def test_tables_are_made_of_files_from_elsewhere(call, inline, tmp_path):
    call(*ARGS, "--out", tmp_path / "a", "--seeds", "1")
    call(*ARGS, "--out", tmp_path / "b", "--seeds", "2")
    files = [part for name in "ab" for part in ("--from", tmp_path / name / "compare.csv")]
    code, _, err = call("compare", *files, "--out", tmp_path / "both")
    assert code == 0
    assert "to do" not in err
    assert len((tmp_path / "both" / "compare.csv").read_text().splitlines()) == 9


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scale", "smal"], ["unknown scale 'smal'", "did you mean 'small'"]),
        (["--methods", "rota"], ["unknown method 'rota'", "did you mean 'rotta'"]),
        (["--kinds", "ctt"], ["unknown kind of stream 'ctt'", "did you mean 'ctta'"]),
        (["--seeds", "a"], ["--seeds takes whole numbers like 0,1,2, got 'a'"]),
        (["--decode", "yes"], ["unknown choice of decode 'yes'"]),
        (["--backend", "loca"], ["unknown backend 'loca'", "did you mean 'local'"]),
        (["--from", "none.csv"], ["no table at none.csv"]),
        (["--scale", "full", "--weights-dir", "none"], ["no weights at none/", "--weights-dir"]),
    ],
)
def test_a_mistake_is_one_sentence(call, tmp_path, args, words):
    code, _, err = call("compare", "--out", tmp_path / "out", *args)
    assert code == 2
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert not (tmp_path / "out").exists()
