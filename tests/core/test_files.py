"""A file is the old one or the new one, and a bad one is one sentence."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from multipool.core import (
    read_json,
    read_tensors,
    replacing,
    write_json,
    write_tensors,
    write_text,
)


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


def test_a_writer_killed_at_any_byte_or_step_leaves_the_old_file_or_the_new_one(tmp_path):
    script = Path(__file__).with_name("killed_writes.py")
    words = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["killed, the old file"] > 600  # every byte of two files
    assert found["killed, the new file"] >= 2  # after the rename


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_step_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_that_is_none_is_a_sentence_that_names_the_file(tmp_path):
    path = tmp_path / "a.json"
    for content in (b"", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b"nothing", b"9" * 5000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.json is not readable as JSON: .+") as caught:
            read_json(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="no file at .*absent"):
        read_json(tmp_path / "absent")


def test_what_was_read_stays_when_the_file_is_written_over(tmp_path):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": torch.arange(1000)})
    tensors, _ = read_tensors(path)
    path.write_bytes(b"")  # in place, as cp does
    assert torch.equal(tensors["a"], torch.arange(1000))


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_says_who_may_read_a_file_and_private_ones_are_the_owners(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "open", "text")
        write_tensors(tmp_path / "private", {"images": torch.zeros(1)}, private=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_names_that_are_no_text_can_be_written(tmp_path):
    write_text(tmp_path / "a.txt", os.fsdecode(b"caf\xe9"))
    assert (tmp_path / "a.txt").read_text() == "caf\\udce9"


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.uint8, torch.bool])
def test_a_file_of_tensors_is_the_one_that_safetensors_writes(tmp_path, kind):
    values = torch.arange(12).reshape(3, 4).to(kind)
    tensors = {"b": values.t(), "a": values, "none": values[:0], "one": values[1, 1]}
    write_tensors(tmp_path / "ours.safetensors", tensors, {"by": "us"})
    whole = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    expected = safetensors.torch.save(whole, metadata={"by": "us"})
    assert (tmp_path / "ours.safetensors").read_bytes() == expected
    found, metadata = read_tensors(tmp_path / "ours.safetensors")
    assert metadata == {"by": "us"}
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_a_folder_is_no_file_to_write(tmp_path):
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        write_text(tmp_path, "x")
    assert list(tmp_path.iterdir()) == []
