from __future__ import annotations

import json

import numpy as np
from PIL import Image


def test_a_copy_of_ones_own_pictures(call, tmp_path):
    (tmp_path / "in" / "ant").mkdir(parents=True)
    Image.fromarray(np.full((32, 32, 3), 90, np.uint8)).save(tmp_path / "in" / "ant" / "1.png")
    args = ("--images", tmp_path / "in", "--size", 32, "--names", "contrast")
    code, out, _ = call("corrupt", *args, "--out", tmp_path / "out")
    assert (code, out.strip()) == (0, str(tmp_path / "out"))
    assert (tmp_path / "out" / "contrast" / "5" / "ant" / "1.JPEG").is_file()
    code, out, err = call("corrupt", *args, "--out", tmp_path / "out", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["corruptions"] == ["contrast"]


def test_a_source_must_be_chosen(call, tmp_path):
    code, _, err = call("corrupt", "--out", tmp_path)
    assert (code, err) == (2, "error: pass either --dataset or --images\n")


def test_unknown_names_are_told(call, tmp_path):
    code, _, err = call("corrupt", "--dataset", "nope", "--out", tmp_path)
    assert code == 2
    assert "shapes-c" in err
