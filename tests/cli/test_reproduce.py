from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from multipool.bench.paper import TARGETS

_spec = importlib.util.spec_from_file_location(
    "invented", Path(__file__).parents[1] / "bench" / "paper" / "conftest.py"
)
_invented = importlib.util.module_from_spec(_spec)


@pytest.fixture
def inventing(monkeypatch, tmp_path):
    """Every run is done at once, with invented numbers."""
    import sys

    sys.modules[_spec.name] = _invented
    _spec.loader.exec_module(_invented)
    stand_in = _invented.Invented()
    monkeypatch.setattr("multipool.bench.paper.drive.sweep", stand_in)
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))
    return stand_in


def test_the_list_names_every_id(call):
    code, out, _ = call("reproduce", "--list")
    assert code == 0
    assert all(name in out for name in TARGETS)
    code, out, _ = call("reproduce", "--list", "--json")
    assert [one["id"] for one in json.loads(out)] == list(TARGETS)


def test_a_table_is_printed_beside_the_papers(call, inventing, tmp_path):
    code, out, err = call("reproduce", "table2", "--scale", "small", "--out", tmp_path)
    assert code == 0
    assert "SMALL: shapes-c in place of the paper's data and models" in out
    assert "35.80" in out
    assert "ours - paper" in out
    assert "UCR helps by itself" in " ".join(out.split())
    assert "table2.csv and .md" in err
    assert (tmp_path / "table2.csv").exists()


def test_runs_of_an_earlier_id_are_found(call, inventing, tmp_path):
    call("reproduce", "table3", "--scale", "small", "--out", tmp_path, "--quiet")
    before = len(inventing.asked)
    call("reproduce", "table3", "--scale", "small", "--out", tmp_path, "--quiet")
    assert len(inventing.asked) == before
    call("reproduce", "table4", "--scale", "small", "--out", tmp_path, "--quiet")
    assert len(inventing.asked) == before + 2 * 3  # ACC is table 3's threshold 0.3


def test_quiet_prints_the_files_alone(call, inventing, tmp_path):
    args = ("reproduce", "table2", "table4", "--scale", "small", "--out", tmp_path, "--quiet")
    code, out, err = call(*args)
    assert (code, err) == (0, "")
    assert out.split() == [str(tmp_path / "table2.csv"), str(tmp_path / "table4.csv")]


def test_json_holds_ours_and_the_papers(call, inventing, tmp_path):
    args = ("reproduce", "table2", "--scale", "small", "--seeds", "3", "--out", tmp_path, "--json")
    code, out, err = call(*args)
    assert (code, err) == (0, "")
    (table,) = json.loads(out)["tables"]
    assert table["id"] == "table2"
    assert table["scale"].endswith("1 seed")
    cell = next(cell for cell in table["cells"] if cell["row"] == "PeTTA")
    assert cell["paper"] == 35.8
    assert {run.experiment.seed for run in inventing.asked} == {3}


def test_a_failed_run_gives_exit_code_1(call, inventing, tmp_path):
    inventing.fail = "petta"
    code, _, err = call("reproduce", "table4", "--scale", "small", "--out", tmp_path)
    assert code == 1
    assert "it broke" in err


def test_collecting_from_an_empty_folder_runs_nothing(call, inventing, tmp_path):
    args = ("reproduce", "table4", "--scale", "small", "--collect", "--out", tmp_path)
    code, out, _ = call(*args)
    assert code == 0
    assert inventing.asked == []
    assert "8 of 8 runs are missing" in out


def test_a_plan_needs_neither_data_nor_weights_here(call, tmp_path):
    file = tmp_path / "plan.json"
    args = ("--scale", "subset", "--seeds", "0", "--weights", "w.pt", "--device", "cuda")
    code, out, err = call("reproduce", "table2", "table4", *args, "--plan", file)
    assert code == 0
    assert out.strip() == str(file)
    assert "9 runs; multipool sweep" in err
    plan = json.loads(file.read_text())
    assert plan["base"] == {"device": "cuda"}
    assert {run["weights"] for run in plan["runs"]} == {"w.pt"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["needs an id, got none", "table1", "all"]),
        (["tabel2"], ["unknown table or figure 'tabel2'", "did you mean 'table2'"]),
        (["fig4", "--plan", "p.json"], ["nothing for a sweep", "without --plan"]),
        (["table2", "--scale", "tiny"], ["unknown scale 'tiny'", "small"]),
        (["table2", "--seeds", "a"], ["--seeds takes whole numbers like 0,1,2, got 'a'"]),
        (["table2", "--limit", "0"], ["limit must be at least 1, got 0"]),
        (["table2", "--methods", "peta"], ["did you mean 'petta'"]),
        (["table1", "--weights", "w.pt"], ["several datasets", "DATASET=FILE"]),
        (["table2"], ["cifar100-c needs a data folder", "--scale small"]),
        (["table2", "--data-dir", "/nowhere"], ["/nowhere", "not a folder", "--scale small"]),
    ],
)
def test_mistakes_are_one_sentence(call, monkeypatch, tmp_path, args, words):
    monkeypatch.delenv("MULTIPOOL_DATA", raising=False)
    code, out, err = call("reproduce", *args, "--out", tmp_path)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert all(word in err for word in words)
