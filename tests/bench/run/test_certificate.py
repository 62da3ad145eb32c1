"""What a certificate holds, and that every table carries it."""

from __future__ import annotations

import csv
import json

import pytest
from torch import nn

from multipool import models
from multipool.bench.paper.cell import Cell
from multipool.bench.paper.reproduction import Reproduction, write_table
from multipool.bench.paper.setting import Setting
from multipool.bench.run.certificate import (
    PARTS,
    certify,
    check_certificate,
    preprocessing,
    settings_of,
    unpack,
)
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.runner import run
from multipool.bench.sweep import Planned, collect_tables
from multipool.data import Stream

SMALL = {"method": "rotta", "memory": "mcm", "batch_size": 8, "device": "cpu"}


def test_a_result_has_every_part(loader):
    made = run(Experiment(seed=3, gamma=0.5, **SMALL), loader=loader).certificate
    check_certificate(made)
    assert set(made) == set(PARTS)
    assert made["seed"] == 3
    assert made["protocol"]["gamma"] == 0.5
    assert made["protocol"]["domains"] == ["dark", "plain", "bright"]
    assert made["method"]["options"]["lr"] == 1e-3
    assert {"multipool", "torch", "numpy", "python"} <= set(made["versions"])
    assert made["command"].startswith("multipool run --dataset shapes-c --method rotta")
    assert json.loads(json.dumps(made)) == made


def test_the_settings_of_a_certificate_make_the_same_experiment(loader):
    experiment = Experiment(seed=3, limit=100, guard=True, **SMALL)
    again = settings_of(run(experiment, loader=loader).certificate)
    assert again.pop("domains") == ["dark", "plain", "bright"]
    made = Experiment.from_settings({**again, "device": "cpu", "domains": None})
    assert made.settings() == experiment.settings()


def test_no_folder_of_the_machine_is_in_it(loader, tmp_path):
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "classes.txt").write_text("")
    experiment = Experiment(
        dataset="folder",
        model=f"{tmp_path / 'mine.py'}:make",
        classes=str(tmp_path / "classes.txt"),
        data_dir=str(tmp_path),
        **SMALL,
    )
    data = loader.dataset(None)
    weights = {"name": experiment.weights_name(), "digest": "d"}
    stream = Stream(data, experiment.stream(), device="cpu")
    made = certify(experiment, weights, nn.Identity(), data, stream, stream.device)
    assert str(tmp_path) not in json.dumps(made)
    assert made["weights"] == {"name": "mine.py:make", "digest": "d"}
    assert "--data-dir DATA" in made["command"]
    assert "--classes classes.txt" in made["command"]


def test_seed_and_images_change_the_streams_digest(loader):
    def digest(**other):
        return run(Experiment(**{**SMALL, **other}), loader=loader).certificate["stream"]

    plain = digest()
    assert digest() == plain
    assert digest(method="source", memory=None) == plain
    assert digest(seed=1) != plain
    real = loader.dataset

    class Darker(type(real(None))):
        def images(self, domain, rows, severity=None):
            return super().images(domain, rows) // 2

    loader.dataset = lambda experiment: Darker(90)
    assert digest() != plain


def test_the_normalisation_inside_the_model_is_told(loader):
    model = models.wrap(nn.Flatten(), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    told = preprocessing(model, loader.dataset(None))
    assert told == {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "size": 8, "resize": None}
    assert preprocessing(nn.Flatten(), loader.dataset(None))["mean"] is None


def test_the_tables_of_a_sweep_carry_them(loader, tmp_path):
    for seed in (0, 1):
        planned = Planned(Experiment(seed=seed, data_dir=str(tmp_path), **SMALL))
        run(planned.experiment, planned.folder(tmp_path), loader=loader)
    collect_tables(tmp_path)
    assert str(tmp_path) not in (tmp_path / "results.csv").read_text()
    seeds = [[c["seed"] for c in unpack(line["certificate"])] for line in _lines(tmp_path)]
    assert seeds == [[0], [1]]
    (mean,) = _lines(tmp_path, "summary.csv")
    assert [c["seed"] for c in unpack(mean["certificate"])] == [0, 1]


@pytest.mark.parametrize("known", [True, False])
def test_a_table_of_the_paper_carries_them(loader, tmp_path, known):
    made = run(Experiment(**SMALL), loader=loader)
    cell = Cell(
        "RoTTA",
        "error",
        {0: made.error},
        measure="error",
        certificates=(made.certificate if known else {},),
    )
    report = Reproduction("table2", "", Setting("small"), (cell,), ())
    write_table(report, tmp_path / "results.csv")
    (line,) = _lines(tmp_path)
    assert line["measure"] == "error"
    assert [c["stream"] for c in unpack(line["certificate"])] == [
        made.certificate["stream"]
    ] * known


def _lines(out, name="results.csv"):
    with (out / name).open(newline="") as file:
        return list(csv.DictReader(file))
