import torch

from multipool.bench.speed.memory import measure_memory
from multipool.bench.speed.naive_memory import NaiveMultiCluster, PublishedPool
from multipool.memory.switch import available


def test_every_bank_is_measured_on_every_size():
    rows = measure_memory(sides=(8,), repeats=2, growth=False)
    ways = ["compiled", "numpy"] if available() else ["numpy"]
    assert [row.decisions for row in rows] == [*ways, "", ""]
    assert [row.bank for row in rows] == ["multipool"] * len(ways) + ["naive", "published"]
    assert all(row.add_ms > 0 and row.retrieve_ms > 0 for row in rows)
    assert all(row.total_ms == row.add_ms + row.retrieve_ms for row in rows)


def test_the_space_beside_the_images_is_below_128_bytes_a_sample():
    rows = [r for r in measure_memory(sides=(8,), repeats=2, growth=False) if r.decisions]
    assert all(row.image_bytes == 5 * 64 * 3 * 8 * 8 for row in rows)
    assert all(0 < row.other_bytes <= 128 * 5 * 64 for row in rows)


def test_without_compiled_decisions_there_are_those_of_numpy(monkeypatch):
    monkeypatch.setenv("MULTIPOOL_COMPILED", "0")
    rows = measure_memory(sides=(8,), repeats=2, growth=False)
    assert [row.decisions for row in rows] == ["numpy", "", ""]


def test_the_references_hold_what_they_should():
    naive, pool = NaiveMultiCluster(100, 4, 2, 0.3), PublishedPool(10, 4)
    for number, level in enumerate([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]):
        image = torch.full((3, 2, 2), level)
        naive.add_instance(image, 0, 0.1)
        pool.add_instance(image, number % 10, 0.1)
    assert [len(cluster) for cluster in naive.clusters] == [4, 1]
    assert len(naive.get_memory(4)[0]) == 3
    assert len(pool.get_memory()[0]) == 4
