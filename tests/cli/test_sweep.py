from __future__ import annotations

import json

import pytest

from multipool.bench.sweep import drive, ledger
from multipool.bench.sweep.work import execute

GRID = """
base: {method: source, batch-size: 8, device: cpu}
grid:
  seed: [0, 1]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


@pytest.fixture
def inline(tiny, monkeypatch):
    """Do the runs here, with the tiny dataset: worker processes have tests of their own."""

    def backend(ledger, runs, options):
        while (run := ledger.next()) is not None:
            ledger.settle(run, execute(run, run.folder(ledger.out), tiny()))

    monkeypatch.setattr(ledger, "POLL", 0.0)
    monkeypatch.setattr("multipool.bench.sweep.plan.Loader", tiny)
    monkeypatch.setattr(drive, "BACKENDS", {"local": backend, "ray": backend})


def test_a_sweep_writes_results_that_a_report_reads(call, inline, file, tmp_path):
    code, out, err = call("sweep", file, "--out", tmp_path / "out")
    assert code == 0
    *shown, path = out.strip().splitlines()
    assert path == str(tmp_path / "out" / "results.csv")
    assert shown[0].strip() == "shapes-c, ptta"
    assert shown[-1].startswith("On this stream use the source model: ")
    assert any("source" in line and "%" not in line for line in shown)
    assert "2 runs: 0 done, 2 to do" in err
    assert "2 done, 0 failed" in err
    code, _, _ = call("report", tmp_path / "out")
    assert code == 0
    assert (tmp_path / "out" / "report.html").exists()


def test_json_says_what_was_done_found_and_failed(call, inline, file, tmp_path):
    args = ("sweep", file, "--out", tmp_path / "out", "--json")
    code, out, err = call(*args)
    first = json.loads(out)
    assert (code, err) == (0, "")
    assert len(first["done"]) == 2
    assert first["found"] == []
    _, out, _ = call(*args)
    assert json.loads(out)["found"] == sorted(first["done"])


def test_quiet_prints_the_table_alone(call, inline, file, tmp_path):
    _, out, err = call("sweep", file, "--out", tmp_path / "out", "--quiet")
    assert out.strip() == str(tmp_path / "out" / "results.csv")
    assert err == ""


def test_the_exit_code_says_that_a_run_failed(call, inline, file, tmp_path, tiny, monkeypatch):
    real = tiny.dataset

    def dataset(self, experiment):
        if experiment.seed == 1:
            raise ValueError("seed 1 is unlucky")
        return real(self, experiment)

    monkeypatch.setattr(tiny, "dataset", dataset)
    code, _, err = call("sweep", file, "--out", tmp_path / "out")
    assert code == 1
    assert "seed 1 is unlucky" in err
    assert "1 done, 1 failed" in err


def test_a_dry_run_prints_plan_and_estimate_and_runs_nothing(call, inline, file, tmp_path):
    args = ("sweep", file, "--out", tmp_path / "out", "--dry-run", "--workers", 2)
    code, out, _ = call(*args)
    assert code == 0
    assert "source-shapes-c-seed1-" in out
    assert "2 runs: 0 done, 2 to do; about" in out
    assert "with 2 workers" in out
    _, out, _ = call(*args, "--json")
    content = json.loads(out)
    assert [line["state"] for line in content["runs"]] == ["to do"] * 2
    assert content["seconds"] > 0
    assert not (tmp_path / "out").exists()


def test_collect_writes_the_tables_again(call, inline, file, tmp_path):
    out = tmp_path / "out"
    code, _, err = call("sweep", file, "--out", out, "--collect")
    assert code == 2
    assert "no table yet" in err
    call("sweep", file, "--out", out, "--quiet")
    (out / "results.csv").unlink()
    code, said, _ = call("sweep", file, "--out", out, "--collect")
    assert (code, said.strip().splitlines()[-1]) == (0, str(out / "results.csv"))
    assert (out / "results.csv").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--backend", "cloud"], ["unknown backend 'cloud'", "local, ray"]),
        (["--workers", "0"], ["workers must be at least 1"]),
        (["--nope"], ["unknown option '--nope'", "--workers"]),
    ],
)
def test_a_mistaken_call_is_one_sentence(call, file, args, words):
    code, _, err = call("sweep", file, *args)
    assert code == 2
    assert all(word in err for word in words), err
    assert len(err.strip().splitlines()) == 1


def test_a_mistaken_file_is_one_sentence_and_nothing_runs(call, tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text("grid: {method: [rotta, rota]}")
    code, _, err = call("sweep", path, "--out", tmp_path / "out")
    assert code == 2
    assert "grid.yaml" in err
    assert "did you mean 'rotta'" in err
    assert not (tmp_path / "out").exists()
