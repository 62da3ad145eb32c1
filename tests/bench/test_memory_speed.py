import torch

from multipool.bench.memory_speed import measure_memory
from multipool.bench.naive_memory import NaiveMultiCluster, PublishedPool


def test_every_bank_is_measured_on_every_size():
    rows = measure_memory(sides=(8,), repeats=2, growth=False)
    assert [row.bank for row in rows] == ["multipool", "naive", "published"]
    assert all(row.add_ms > 0 and row.retrieve_ms > 0 for row in rows)
    assert all(row.total_ms == row.add_ms + row.retrieve_ms for row in rows)


def test_the_space_beside_the_images_is_below_128_bytes_a_sample():
    row = measure_memory(sides=(8,), repeats=2, growth=False)[0]
    assert row.image_bytes == 5 * 64 * 3 * 8 * 8
    assert 0 < row.other_bytes <= 128 * 5 * 64


def test_the_references_hold_what_they_should():
    naive, pool = NaiveMultiCluster(100, 4, 2, 0.3), PublishedPool(10, 4)
    for number, level in enumerate([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]):
        image = torch.full((3, 2, 2), level)
        naive.add_instance(image, 0, 0.1)
        pool.add_instance(image, number % 10, 0.1)
    assert [len(cluster) for cluster in naive.clusters] == [4, 1]
    assert len(naive.get_memory(4)[0]) == 3
    assert len(pool.get_memory()[0]) == 4
