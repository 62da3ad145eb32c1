"""The bench of corruptions: rows, the overall figure, and a stand-in for the other package."""

from types import SimpleNamespace

import numpy as np
import pytest

from multipool.bench.speed import corruptions
from multipool.bench.speed.corruptions import measure_corruptions, overall
from multipool.data.corruptions import COMMON


def test_every_common_corruption_gets_a_row():
    told = []
    rows = measure_corruptions(images=8, reference_images=1, progress=told.append)
    assert [row.name for row in rows] == list(COMMON) == told
    assert all(row.ours > 0 and row.pixels == 32 for row in rows)


def test_a_corruption_that_fails_in_the_other_package_has_no_ratio(monkeypatch):
    def slow(image, corruption_name, severity):
        assert (image.shape, severity) == ((32, 32, 3), 2)
        if corruption_name == "glass_blur":
            raise TypeError("unexpected keyword")
        return np.zeros(0, dtype=np.float_)  # a name that only old NumPy has

    monkeypatch.setattr(corruptions, "reference_package", lambda: SimpleNamespace(corrupt=slow))
    glass, fog = measure_corruptions(["glass_blur", "fog"], images=4, severity=2)
    assert glass.reference is None
    assert glass.ratio is None
    assert fog.ratio == pytest.approx(fog.ours / fog.reference)
    assert not hasattr(np, "float_") or np.__version__ < "2"


def test_overall_is_total_images_over_total_time():
    # 10 images in 1 s and 10 in 4 s: 20 in 5 s.
    assert overall([10.0, 2.5]) == pytest.approx(4.0)
