"""The unpickler lets arrays through and nothing else."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from multipool.data.pickles import load_batches, load_pickle


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_code_in_a_pickle_is_never_run(tmp_path):
    file = tmp_path / "test_batch"
    file.write_bytes(pickle.dumps({b"data": Evil(tmp_path / "made")}))
    with pytest.raises(ValueError, match=r"not a CIFAR batch file: it wants to call .*mkdir"):
        load_pickle(file)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x05garbage", pickle.dumps([1, 2])])
def test_anything_else_is_one_sentence(tmp_path, content):
    file = tmp_path / "test_batch"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="is not a CIFAR batch file") as caught:
        load_pickle(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_arrays_of_any_old_protocol_come_through(tmp_path, protocol):
    rows = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    file = tmp_path / "test_batch"
    file.write_bytes(pickle.dumps({"data": rows, "labels": [1, 2]}, protocol=protocol))
    clean = load_batches(tmp_path, 10, "test")
    assert clean.images.shape == (2, 32, 32, 3)
    assert clean.images[0, 0, 1].tolist() == [1, (1024 + 1) % 256, (2048 + 1) % 256]


def test_batches_with_the_wrong_content_are_refused(tmp_path):
    file = tmp_path / "test_batch"
    file.write_bytes(pickle.dumps({b"data": np.zeros((2, 100), np.uint8), b"labels": [0, 0]}))
    with pytest.raises(ValueError, match=r"must hold 'data', uint8 \(N, 3072\)"):
        load_batches(tmp_path, 10, "test")
    file.write_bytes(pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]}, 2))
    with pytest.raises(ValueError, match="has 2 images but 1 labels"):
        load_batches(tmp_path, 10, "test")
