"""The official CIFAR-10-C files and a RobustBench checkpoint, by one command."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

from multipool import models
from multipool.bench.run.loader import Loader
from multipool.bench.sweep.drive import BACKENDS
from multipool.bench.sweep.work import execute
from multipool.data import COMMON, DATASETS, DataOptions
from multipool.data.subset import balanced_rows

LABELS = np.random.default_rng(0).integers(0, 10, 10_000).astype(np.uint8)


def official(folder, rows, names=COMMON):
    """Write the official layout at its full size; the files have holes, so they take no space.

    Of every severity only ``rows`` are pictures, random blocks, other ones in every block.
    """
    home = folder / "CIFAR-10-C"
    home.mkdir(parents=True)
    np.save(home / "labels.npy", np.tile(LABELS, 5))
    rng = np.random.default_rng(1)
    shown = {}
    for name in names:
        shape = (5 * len(LABELS), 32, 32, 3)
        file = np.lib.format.open_memmap(home / f"{name}.npy", "w+", np.uint8, shape)
        for level in range(5):
            coarse = rng.integers(0, 256, (len(rows), 4, 4, 3), dtype=np.uint8)
            shown[name, level + 1] = coarse.repeat(8, axis=1).repeat(8, axis=2)
            file[level * len(LABELS) + rows] = shown[name, level + 1]
        file.flush()
    return shown


def checkpoint(path, architecture):
    """Write what RobustBench's files hold: a wrapped, prefixed state dict.

    ``Standard`` (WRN-28-10) takes pixels as they are; others bring their normalisation along.
    """
    model = models.build(architecture, 10, seed=2)
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    if architecture != "wrn28-10":
        state |= {"module.mu": model.normalise.mean, "module.sigma": model.normalise.std}
    torch.save({"state_dict": state, "epoch": 200}, path)
    return model.eval()


def test_blocks_of_the_files_are_severities_and_are_mapped(tmp_path):
    rows = np.array([3, 9_999])
    shown = official(tmp_path, rows, ["fog"])
    data = DATASETS["cifar10-c"](DataOptions(tmp_path, domains=("fog",)))
    assert np.array_equal(data.labels("fog"), LABELS)
    for level in range(1, 6):
        pictures = data.images("fog", rows, level).permute(0, 2, 3, 1).numpy()
        assert np.array_equal(pictures, shown["fog", level])
    used = (tmp_path / "CIFAR-10-C" / "fog.npy").stat().st_blocks * 512
    assert used < 2**20  # of 154 MB: nothing has read or filled the holes


@pytest.mark.parametrize(
    ("architecture", "limit"),
    [("wrn10-1", 6), pytest.param("wrn28-10", 2, marks=pytest.mark.slow)],
)
def test_one_command_gives_the_row_of_table_1(call, monkeypatch, tmp_path, architecture, limit):
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))
    if architecture == "wrn10-1":  # starting a process takes longer than the run
        monkeypatch.setitem(BACKENDS, "local", _here)
    rows = balanced_rows(LABELS.astype(np.int64), limit, 0)
    shown = official(tmp_path / "data", rows)
    model = checkpoint(tmp_path / "Standard.pt", architecture)
    code, out, err = call(
        *("reproduce", "table1", "--methods", "source", "--limit", limit, "--seeds", "0"),
        *("--data-dir", tmp_path / "data", "--weights", f"cifar10-c={tmp_path / 'Standard.pt'}"),
        *("--out", tmp_path / "out", "--workers", 1, "--device", "cpu"),
    )
    assert code == 0, err
    assert "Source" in out
    with (tmp_path / "out" / "table1.csv").open(newline="") as file:
        lines = {(line["part"], line["row"]): line for line in csv.DictReader(file)}
    row = lines["CIFAR10-C", "Source"]
    assert row["paper"] == "43.5"
    assert row["certificate"].startswith('[{"weights":{"name":"Standard.pt"')
    assert str(tmp_path) not in row["certificate"]
    wrong = [_wrong(model, shown[name, 5], LABELS[rows]) for name in COMMON]
    assert float(row["ours"]) == pytest.approx(100 * float(np.mean(wrong)), abs=0.01)


def _here(work, runs, options):
    """Stand in for the local backend: the runs one after the other in this process."""
    while (planned := work.next()) is not None:
        work.settle(planned, execute(planned, planned.folder(work.out), Loader()))


@torch.no_grad()
def _wrong(model, pictures, labels):
    """Return which pictures ``(B, H, W, 3)`` the model gets wrong, counted by hand."""
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    return model(images).argmax(1).numpy() != labels
