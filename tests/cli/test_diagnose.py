import csv
import json
import math

import pytest


def rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_stream_prints_numbers_and_draws_fig1a(call, tmp_path):
    options = ["--domains", "contrast,saturate", "--limit", "100", "--window", "60"]
    options += ["--max-components", "3", "--max-windows", "2"]
    code, out, err = call("diagnose", "stream", *options, "--out", tmp_path)
    assert code == 0, err
    assert all(name in out for name in ("pixel", "spatial_mean", "histogram", "mean K*"))
    assert {path.name for path in tmp_path.iterdir()} == {"fig1a.png", "fig1a.svg", "fig1a.csv"}
    found = rows(tmp_path / "fig1a.csv")
    assert len(found) == 3 * 2
    assert all(1 <= int(row["K*"]) <= 3 for row in found)


def test_stream_speaks_json(call):
    options = ["--domains", "contrast", "--limit", "60", "--max-components", "2"]
    code, out, _ = call("diagnose", "stream", *options, "--descriptors", "pixel", "--json")
    assert code == 0
    (one,) = json.loads(out)["stream"]
    assert one["descriptor"] == "pixel"
    assert one["mean"] == one["best"][0]


def test_memory_compares_memories_over_time(tiny, call, tmp_path):
    options = ["--method", "petta", "--batch-size", "16", "--components", "4", "--interval", "32"]
    code, out, err = call("diagnose", "memory", *options, "--same-capacity", "--out", tmp_path)
    assert code == 0, err
    assert all(name in out for name in ("single", "single (64)", "mcm+", "coverage, end"))
    assert {path.stem for path in tmp_path.glob("fig*")} == {"fig4", "fig1b", "figS2"}
    quality = rows(tmp_path / "fig4.csv")
    assert {row["memory"] for row in quality} == {"single", "single (64)", "mcm", "mcm+"}
    numbers = [float(row[key]) for row in quality for key in ("imbalance", "entropy", "coverage")]
    assert all(math.isfinite(number) for number in numbers)
    places = rows(tmp_path / "figS2.csv")
    assert {row["kind"] for row in places} == {"sample", "centroid"}
    assert len({row["samples"] for row in places}) == 2


def test_memory_speaks_json_and_repeats_itself(tiny, call):
    options = ["--method", "rotta", "--batch-size", "16", "--memories", "mcm", "--json"]
    first, second = (call("diagnose", "memory", *options)[1] for _ in range(2))
    assert json.loads(first) == json.loads(second)
    (one,) = json.loads(first)["memory"]
    assert one["end"] == {key: one["trace"][-1][key] for key in one["end"]}


def test_mistakes_are_one_sentence(tiny, call):
    code, _, err = call("diagnose", "stream", "--descriptors", "pixels")
    assert (code, "did you mean 'pixel'" in err) == (2, True)
    code, _, err = call("diagnose", "memory", "--method", "tent")
    assert (code, "tent has no memory" in err) == (2, True)
    code, _, err = call("diagnose", "memory", "--at", "half")
    assert (code, "--at takes shares of the stream" in err) == (2, True)
    code, _, err = call("diagnose", "memory", "--at", "2")
    assert (code, "in (0, 1], got 2" in err) == (2, True)
    code, _, err = call("diagnose", "memory", "--memories", "mcn")
    assert (code, "did you mean 'mcm'" in err) == (2, True)


@pytest.mark.parametrize("what", ["stream", "memory"])
def test_a_folder_that_cannot_be_is_told_before_the_work(call, tmp_path, what, monkeypatch):
    monkeypatch.setattr(f"multipool.cli.diagnose.diagnose_{what}", None)
    (tmp_path / "file").touch()
    code, _, err = call("diagnose", what, "--out", tmp_path / "file" / "out")
    assert code == 1
    assert "Not a directory" in err


def test_run_records_when_asked(tiny, call, tmp_path):
    options = ["run", "--method", "rotta", "--memory", "mcm", "--batch-size", "16", "--quiet"]
    code, _, err = call(*options, "--diagnose", "--out", tmp_path / "run")
    assert code == 0, err
    found = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert found["diagnostics"][-1]["samples"] == found["samples"]
    assert 0 < found["diagnostics"][-1]["memory"]["coverage"] <= 1
