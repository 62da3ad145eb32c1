from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from multipool.bench.paper import TARGETS, Setting, chosen, diagnoses, reproduce
from multipool.bench.paper.case import Case, Found
from multipool.bench.paper.grids import GRIDS
from multipool.bench.run.result import read as read_result
from multipool.bench.sweep import Planned

SMALL = Setting("small", device="cpu")
FROM_RUNS = list(GRIDS)
LOOKING = [name for name in TARGETS if TARGETS[name].look]


@pytest.fixture
def tiny_look(loader_class, monkeypatch):
    """Look at the tiny dataset and model."""
    monkeypatch.setattr("multipool.bench.run.loader.Loader", loader_class)
    data = loader_class().dataset(None)
    monkeypatch.setattr(diagnoses, "load", lambda name, folder: data)


def lines(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_every_id_is_made_and_says_its_scale(inventing, tiny_look, tmp_path):
    made = reproduce(list(TARGETS), SMALL, tmp_path)
    assert [report.name for report in made.reports] == list(TARGETS)
    for name in TARGETS:
        assert (tmp_path / f"{name}.md").read_text().splitlines()[2].startswith("**SMALL")
        rows = lines(tmp_path / f"{name}.csv")
        assert {row["scale"] for row in rows} == {"small"}
        assert any(row["ours"] for row in rows)
        if name.startswith("fig"):
            for ending in ("png", "svg", "csv"):
                assert (tmp_path / "figures" / f"{name}.{ending}").stat().st_size > 100
            assert "SMALL" in (tmp_path / "figures" / f"{name}.svg").read_text()
    names = [run.name for run in inventing.asked]
    assert len(set(names)) == len(names)


def test_the_second_time_nothing_is_run(inventing, tiny_look, tmp_path, monkeypatch):
    reproduce(["table4", "fig4", "fig1a"], SMALL, tmp_path, draw=False)
    first = (tmp_path / "fig4.csv").read_text()
    inventing.asked.clear()
    monkeypatch.setattr(diagnoses, "diagnose_memory", None)
    monkeypatch.setattr(diagnoses, "diagnose_stream", None)
    reproduce(["table4", "fig4", "figS2", "fig1a"], SMALL, tmp_path, draw=False)
    assert inventing.asked == []
    assert (tmp_path / "fig4.csv").read_text() == first


def test_numbers_are_those_of_the_runs(inventing, tmp_path):
    reproduce(["table2"], SMALL, tmp_path, draw=False)
    runs = [read_result(path) for path in (tmp_path / "runs").glob("*/result.json")]
    own = {run.seed: run.error for run in runs if run.settings["memory"] == "single"}
    row = next(line for line in lines(tmp_path / "table2.csv") if line["row"] == "PeTTA")
    assert float(row["ours"]) == pytest.approx(sum(own.values()) / 2)
    assert float(row["paper"]) == 35.8


def test_a_folder_from_another_machine_is_recognised(inventing, invent, tmp_path):
    runs = [(e.case, seed) for e in GRIDS["table4"]() for seed in SMALL.runs_seeds]
    for number, (case, seed) in enumerate(runs):
        result = invent(Planned(case.experiment(SMALL, seed)))
        settings = {**result.settings, "device": "cuda", "data_dir": "elsewhere"}
        replace(result, settings=settings).write(tmp_path / "runs" / f"carried-{number}")
    made = reproduce(["table4"], SMALL, tmp_path)
    assert inventing.asked == []
    assert not any("missing" in note for note in made.reports[0].notes)


def test_weights_are_told_apart_by_their_files_name(invent, tmp_path):
    planned = Planned(Case("source").experiment(SMALL, 0))
    for name in ("a.pt", "b.pt"):
        result = invent(planned)
        settings = {**result.settings, "dataset": "cifar100-c", "weights": f"there/{name}"}
        replace(result, settings=settings).write(tmp_path / "runs" / name)
    setting = Setting("subset", limit=SMALL.images)
    case = Case("source")
    with pytest.raises(ValueError, match=r"different weights \(a.pt, b.pt\); say which"):
        Found(tmp_path, setting).runs(case)
    told = replace(setting, weights={"cifar100-c": "here/b.pt"})
    assert Found(tmp_path, told).runs(case)[0].settings["weights"] == "there/b.pt"
    other = replace(setting, weights={"cifar100-c": "c.pt"})
    assert Found(tmp_path, other).runs(case) == {}


def test_runs_of_weights_that_were_replaced_are_missing(invent, tmp_path, monkeypatch):
    case, setting = Case("rotta"), Setting("small", seeds=(0,))
    planned = Planned(case.experiment(setting, 0))
    replace(invent(planned), weights={"digest": "old"}).write(planned.folder(tmp_path))
    monkeypatch.setattr("multipool.bench.run.loader.weights_digest", lambda name: "old")
    assert list(Found(tmp_path, setting).runs(case)) == [0]
    monkeypatch.setattr("multipool.bench.run.loader.weights_digest", lambda name: "new")
    assert Found(tmp_path, setting).missing([case]) == [(case, 0)]


def test_a_failed_run_leaves_a_dash_and_a_note(inventing, tmp_path):
    inventing.fail = "cotta"
    made = reproduce(["table5"], SMALL, tmp_path)
    assert set(made.failed.values()) == {"it broke"}
    assert made.reports[0].notes[1].startswith("2 of 16 runs are missing")
    row = next(row for row in made.reports[0].blocks[0].rows if row[0] == "CoTTA")
    assert row[1] == "–"


def test_collecting_runs_nothing_and_shows_what_is_there(inventing, tmp_path):
    made = reproduce(["table4", "fig1a", "fig4"], SMALL, tmp_path, collect=True)
    assert inventing.asked == []
    assert all(report.blocks == [] for report in made.reports)
    assert "8 of 8 runs are missing; a dash stands for them." in made.reports[0].notes


def test_without_data_the_error_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("MULTIPOOL_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="cifar100-c needs a data folder: pass --data-dir"):
        reproduce(["table2"], Setting(), tmp_path)
    with pytest.raises(FileNotFoundError, match="--scale small needs neither"):
        reproduce(["table2"], Setting(), tmp_path)


def test_datasets_that_are_not_here_are_left_out_with_a_reason(inventing, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "multipool.bench.paper.drive.DATASETS",
        dict.fromkeys(
            ("cifar10-c", "cifar100-c", "imagenet-c", "domainnet126"), lambda options: None
        ),
    )
    weights = tmp_path / "model.safetensors"
    weights.touch()
    setting = Setting(weights={"cifar10-c": str(weights)}, seeds=(0,))
    made = reproduce(["table1"], setting, tmp_path)
    assert {run.experiment.dataset for run in inventing.asked} == {"cifar10-c"}
    assert [block.title for block in made.reports[0].blocks] == ["CIFAR10-C"]
    assert any("cifar100-c needs a source model" in note for note in made.reports[0].notes)


def test_watched_memories_are_kept_as_they_were(tiny_look, tmp_path):
    setting = replace(SMALL, seeds=(0,))
    (seen,) = diagnoses.watched_memories(setting, tmp_path, lambda text: None).values()
    (again,) = diagnoses.watched_memories(setting, tmp_path, None).values()
    assert [one.name for one in again] == list(diagnoses.MEMORIES)
    for mine, other in zip(seen, again, strict=True):
        assert (mine.trace, mine.error, mine.changes) == (other.trace, other.error, other.changes)
        for shot, kept in zip(mine.snapshots, other.snapshots, strict=True):
            assert shot.quality == kept.quality
            assert shot.held.equal(kept.held)


def test_what_is_done_needs_neither_data_nor_weights(inventing, invent, tmp_path, monkeypatch):
    monkeypatch.delenv("MULTIPOOL_DATA", raising=False)
    setting = Setting("subset", seeds=(0,))
    for entry in GRIDS["table4"]():
        planned = Planned(entry.case.experiment(SMALL, 0))
        result = invent(planned)
        settings = {**result.settings, "dataset": "cifar100-c", "limit": 15000}
        replace(result, settings=settings).write(tmp_path / "runs" / planned.name)
    made = reproduce(["table4"], setting, tmp_path)
    assert inventing.asked == []
    assert all(cell.values for cell in made.reports[0].cells)
    with pytest.raises(FileNotFoundError, match="cifar100-c needs a data folder"):
        reproduce(["table4", "table2"], setting, tmp_path)


@pytest.mark.parametrize("word", ["tabel2", "table", "fig9"])
def test_unknown_ids_are_refused_with_the_nearest(word):
    with pytest.raises(ValueError, match="unknown table or figure") as refused:
        chosen([word])
    assert "did you mean" in str(refused.value)
    assert "tableS4" in str(refused.value)


def test_all_is_every_id():
    assert chosen(["all"]) == list(TARGETS)
    issue = "table1 table2 table3 table4 table5 fig1a fig1b fig3 fig4 tableS1 tableS2 tableS3"
    assert {*issue.split(), "tableS4", "figS1", "figS2"} == set(TARGETS)


@pytest.mark.slow
def test_everything_runs_at_small_scale(tmp_path):
    made = reproduce(list(TARGETS), replace(SMALL, limit=10, seeds=(0,)), tmp_path)
    assert made.failed == {}
    for name in TARGETS:
        assert not any("missing" in note for note in made.reports[0].notes)
        assert (tmp_path / f"{name}.csv").exists()
    assert json.loads(next((tmp_path / "runs").glob("*/result.json")).read_text())["complete"]
