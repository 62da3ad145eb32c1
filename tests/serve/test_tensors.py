"""Tensors in JSON and in bytes: exact, or refused in a sentence."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from multipool.serve.refusal import Refusal
from multipool.serve.tensors import INPUT_TYPES, checked_shape, from_bytes, from_json

FLOATS = hnp.arrays(np.float32, (2, 1, 2, 2), elements=st.floats(-1024, 1024, width=32))


@given(FLOATS, st.booleans())
def test_floats_survive_json_bit_for_bit(array, nested):
    data = json.loads(json.dumps((array if nested else array.reshape(-1)).tolist()))
    assert np.array_equal(from_json(data, "FP32", array.shape), array)


@pytest.mark.parametrize("datatype", INPUT_TYPES)
def test_bytes_come_back_as_they_were(datatype):
    array = np.arange(24).reshape(2, 3, 2, 2).astype(INPUT_TYPES[datatype])
    found = from_bytes(array.tobytes(), datatype, array.shape)
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    found[0] = 1  # a copy: what arrives next must not change it


@pytest.mark.parametrize(
    ("data", "datatype", "said"),
    [
        ([1, 2, 3], "FP32", "must hold its shape"),
        ([[1, 2], [3, 4]], "FP32", "must hold its shape"),
        ([[1, 2], [3]], "FP32", "flat or nested evenly"),
        (["1", "2", "3", "4"], "FP32", "must be numbers"),
        ([None] * 4, "FP32", "must be numbers"),
        ([10**400] * 4, "FP32", "must be numbers"),
        ([True] * 4, "UINT8", "must be numbers"),
        ([0, 1, 2, 256], "UINT8", "from 0 to 255"),
        ([0, 1, 2, -1], "UINT8", "from 0 to 255"),
        ([0.5] * 4, "UINT8", "from 0 to 255"),
        ([0.5] * 4, "FP16", "no form in JSON"),
        ([0.5] * 4, "BYTES", "must be one of FP32"),
        ([0.5] * 4, ["FP32"], "must be one of FP32"),
        ("AAAA", "FP32", "must be a list of numbers"),
        (None, "FP32", "must be a list of numbers"),
    ],
)
def test_data_that_is_no_tensor_is_refused(data, datatype, said):
    with pytest.raises(Refusal, match=said):
        from_json(data, datatype, (1, 1, 2, 2))


def test_bytes_of_another_length_are_refused():
    with pytest.raises(Refusal, match="takes 16 bytes of binary data, got 15"):
        from_bytes(b"x" * 15, "FP32", (1, 1, 2, 2))


@pytest.mark.parametrize(
    "shape",
    [None, [], [1], [1, 3, 8], [0, 3, 8, 8], [9, 3, 8, 8], [1, 3, 8, 9], [True, 3, 8, 8],
     [1.0, 3, 8, 8], [-1, 3, 8, 8], [10**30, 3, 8, 8], "1388", [1] * 100000],
)  # fmt: skip
def test_shapes_of_other_images_are_refused(shape):
    with pytest.raises(Refusal) as refusal:
        checked_shape(shape, (3, 8, 8), 8)
    assert "B from 1 to 8" in refusal.value.sentence
    assert len(refusal.value.sentence) < 400
