"""A stream costs what it learns; a thousand of them fit."""

import pytest

from .many import measure


def test_a_stream_is_a_small_part_of_the_memory_of_a_process(tmp_path):
    found = measure("multipool", streams=12, images=8, resident=12, folder=tmp_path)
    assert found["files"] == 12
    assert found["kib_of_memory_a_stream"] < 8 * 1024


@pytest.mark.slow
@pytest.mark.parametrize("resident", [1000, 100])
def test_a_thousand_streams(tmp_path, resident):
    found = measure("multipool", streams=1000, images=16, resident=resident, folder=tmp_path)
    print(found)
    assert found["files"] == 1000
    assert found["kib_of_memory_a_stream"] < 8 * 1024
