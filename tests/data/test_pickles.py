"""The unpickler lets arrays through and nothing else."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from multipool.data import unpickler
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


def nested(opening: bytes, again: bytes, levels: int) -> bytes:
    """Code that leaves something on the stack that holds itself twice at each of so many levels."""
    code = opening
    for level in range(levels):
        code += b"q" + bytes([level]) + b"h" + bytes([level]) + again
    return code


TUPLES = nested(b")", b"\x86", 90)  # ((), ()) and so on: 2^90 of them
LISTS = b"]q\x00" + b"".join(
    b"0]q" + bytes([level + 1]) + 2 * (b"h" + bytes([level]) + b"a") for level in range(90)
)
BATCH = pickle.dumps({"data": np.zeros((1, 3072), np.uint8)}, 3)[:-1] + b"X\x06\x00\x00\x00labels"
DTYPE = b"cnumpy\ndtype\n"
LAUGHS = {
    "tuples as a key": b"\x80\x02}" + TUPLES + b"K\x01s.",
    "tuples in a dictionary": b"\x80\x02}(" + TUPLES + b"K\x01u.",
    "tuples as the labels": BATCH + TUPLES + b"s.",
    "tuples as a dtype": b"\x80\x02" + DTYPE + TUPLES + b"\x85R.",
    "tuples as a byte order": b"\x80\x02" + DTYPE + b"U\x02u1\x85RK\x03" + TUPLES + b"\x86b.",
    "lists as the labels": BATCH + LISTS + b"s.",
    "lists as a dtype": b"\x80\x02" + DTYPE + LISTS + b"\x85R.",
    "lists by a mark": BATCH + b"(lq\x00" + b"0(h\x00h\x00lq\x00" * 100 + b"s.",
    "a list in itself": b"\x80\x02]q\x00h\x00a.",
    "a list by its index": b"\x80\x02](K\x01eq\x00K\x00h\x00s.",
    "a dictionary in itself": b"\x80\x02}q\x00U\x01ah\x00s.",
    "one text a thousand times": b"\x80\x02c_codecs\nencode\nq\x000X\x01\x00\x00\x00a\x85q\x010"
    + 1000 * b"h\x00h\x01R0"
    + b"}.",
}


@pytest.mark.parametrize("content", LAUGHS.values(), ids=LAUGHS)
def test_containers_that_unfold_without_end_are_refused_at_once(tmp_path, content):
    """Each would have to be hashed, compared, printed or converted 2^90 times."""
    assert len(content) < 7000
    file = tmp_path / "test_batch"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="is not a CIFAR batch file: it (holds|gives)") as caught:
        load_batches(tmp_path, 10, "test")
    assert len(str(caught.value)) < 300


def test_a_long_text_among_the_labels_is_not_multiplied(tmp_path):
    rows, text = np.zeros((2, 3072), np.uint8), b"x" * 10**6
    file = tmp_path / "test_batch"
    file.write_bytes(pickle.dumps({"data": rows, "labels": [text] * 10**5}))
    with pytest.raises(ValueError, match="must be a list of whole numbers"):
        load_batches(tmp_path, 10, "test")


def test_a_file_sets_no_attributes_of_ours(tmp_path):
    file = tmp_path / "test_batch"
    file.write_bytes(b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00xK\x01sb.")
    with pytest.raises(ValueError, match="it gives a state to what has none"):
        load_pickle(file)
    assert not vars(unpickler._encode)
