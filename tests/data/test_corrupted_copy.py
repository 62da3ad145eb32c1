from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from multipool.data.corrupted_copy import copy_dataset, copy_folder


def test_pictures_come_out_in_corruption_severity_class_folders(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "in" / name).mkdir(parents=True)
        pixels = np.full((40, 48, 3), 90, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "in" / name / "1.png")
    copy_folder(tmp_path / "in", tmp_path / "out", ["brightness"], size=32, severities=(2, 5))
    made = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.JPEG"))
    assert made == [f"brightness/{s}/{c}/1.JPEG" for s in (2, 5) for c in ("ant", "bee")]
    with Image.open(tmp_path / "out" / made[-1]) as picture:
        assert picture.size == (32, 32)
        assert np.asarray(picture).mean() > 120  # brighter than 90


def test_mistakes_are_told(tmp_path):
    with pytest.raises(ValueError, match="unknown dataset kept as arrays 'imagenet-c'"):
        copy_dataset("imagenet-c", tmp_path, ["fog"])
    with pytest.raises(ValueError, match="size must be one of 32, 64, 224, got 50"):
        copy_folder(tmp_path, tmp_path / "o", ["fog"], size=50)
    with pytest.raises(FileNotFoundError, match="no folder with class folders"):
        copy_folder(tmp_path / "gone", tmp_path / "o", ["fog"])
