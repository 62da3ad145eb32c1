import pytest
import torch

from multipool.bench.run.diagnose import diagnose_memory
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.runner import run
from multipool.diagnostics import memory_quality


@pytest.fixture(autouse=True)
def tiny_loader(monkeypatch, loader_class):
    monkeypatch.setattr("multipool.bench.run.loader.Loader", loader_class)


EXPERIMENT = Experiment(method="rotta", batch_size=16)


def test_watching_changes_nothing(loader):
    (watched,) = diagnose_memory(EXPERIMENT, ["mcm"], interval=32, components=4)
    alone = run(Experiment(method="rotta", memory="mcm", batch_size=16), loader=loader)
    assert watched.error == alone.error


def test_a_snapshot_agrees_with_the_measurement_of_that_time():
    (watched,) = diagnose_memory(
        EXPERIMENT, ["single"], interval=16, components=4, snapshots=(0.25, 1.0)
    )
    first, last = watched.snapshots
    assert last.samples == len(last.stream) == watched.trace[-1].samples
    assert last.quality == watched.trace[-1].quality
    assert sum(last.quality.occupancy) == len(last.held) == len(last.clusters)
    again = memory_quality(first.held, first.stream, components=4)
    assert again == next(p.quality for p in watched.trace if p.samples == first.samples)
    assert torch.isfinite(last.held).all()


def test_the_mean_is_over_time_and_the_last_is_the_end():
    (watched,) = diagnose_memory(EXPERIMENT, ["mcm+"], interval=64, components=4)
    values = [point.quality.entropy for point in watched.trace]
    assert watched.mean("entropy") == pytest.approx(sum(values) / len(values))
    assert watched.last("entropy") == values[-1]
    assert watched.changes[0] == 0
