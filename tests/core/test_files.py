"""A file is the old one or the new one, and a bad one is one sentence."""

import json

import pytest
import torch

from multipool.core import read_tensors, replacing, write_json, write_tensors, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def interrupted():
        with replacing(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_makes_the_folder_and_replaces_the_file(tmp_path):
    path = tmp_path / "new" / "a.json"
    write_json(path, {"b": 1, "a": [1.5, None]})
    write_json(path, {"b": 2})
    assert json.loads(path.read_text()) == {"b": 2}
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"error": float("nan")})
    assert not list(tmp_path.iterdir())


def test_tensors_come_back_bit_for_bit_with_their_metadata(tmp_path):
    path = tmp_path / "t.safetensors"
    base = torch.randn(4, 6)
    tensors = {
        "view": base[:, ::2],
        "same": base,
        "number": torch.tensor(3),
        "none": torch.empty(0),
    }
    write_tensors(path, tensors, {"kind": "test"})
    back, metadata = read_tensors(path)
    assert metadata == {"kind": "test"}
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[k], tensors[k]) for k in tensors)


@pytest.mark.parametrize("cut", [0, 3, 8, 40, -1])
def test_a_truncated_file_is_one_sentence(tmp_path, cut):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": torch.arange(10)})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match="is not a readable safetensors file"):
        read_tensors(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file at .*absent"):
        read_tensors(tmp_path / "absent")
