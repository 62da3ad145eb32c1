"""Array files: whatever is in them, they load or they are refused in one sentence."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multipool.data.arrays import CleanSet, gather, load_npy, load_npz


def packed(save, *args, **kwargs):
    file = io.BytesIO()
    save(file, *args, **kwargs)
    return bytearray(file.getvalue())


NPY = packed(np.save, np.zeros((3, 4, 4, 3), np.uint8))
NPZ = packed(np.savez, images=np.zeros((3, 4, 4, 3), np.uint8), labels=np.arange(3))
edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6)


def damaged(content, changes, keep):
    content = bytearray(content)
    for place, value in changes:
        content[int(place * (len(content) - 1))] = value
    return bytes(content[: int(keep * len(content))])


@pytest.mark.parametrize("kind", ["npy", "npz"])
@given(changes=edits, keep=st.sampled_from([0.0, 0.1, 0.5, 0.99, 1.0, 1.0, 1.0]))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_file_loads_or_is_one_sentence(tmp_path, kind, changes, keep):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(damaged(NPY if kind == "npy" else NPZ, changes, keep))
    sentence = ""
    try:
        if kind == "npy":
            load_npy(path)
        else:
            clean = load_npz(path, 3, 4)
            assert clean.images.shape[1:] == (4, 4, 3)
            assert clean.labels.min() >= 0
            assert clean.labels.max() < 3
    except ValueError as error:
        sentence = str(error)
    assert "\n" not in sentence


def test_a_pickle_under_the_name_of_an_array_is_not_opened(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(pickle.dumps({"images": 1}))
    with pytest.raises(ValueError, match="is not a readable .npz file"):
        load_npz(path, 3, 4)
    with pytest.raises(ValueError, match="is not a complete .npy file"):
        load_npy(path)


def test_an_npz_that_grows_a_thousandfold_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, images=np.zeros((9000, 4, 4, 3), np.uint8), labels=np.zeros(9000))
    monkeypatch.setattr("multipool.data.archives.FREE_BYTES", 0)
    with pytest.raises(ValueError, match="it would unpack to more than 0 MB"):
        load_npz(path, 3, 4)


def test_missing_files_are_named(tmp_path):
    for read in (lambda p: load_npz(p, 3, 4), load_npy):
        with pytest.raises(FileNotFoundError, match="no file at .*none"):
            read(tmp_path / "none")


def test_rows_come_channels_first(rng):
    images = rng.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
    picked = gather(images, np.array([4, 0]))
    assert picked.shape == (2, 3, 4, 6)
    np.testing.assert_array_equal(picked.numpy(), images[[4, 0]].transpose(0, 3, 1, 2))


def test_a_digest_depends_on_every_byte_and_on_the_shape(rng):
    images = rng.integers(0, 256, (2, 4, 4, 3), dtype=np.uint8)
    other = images.copy()
    other[1, 3, 3, 2] ^= 1
    labels = np.arange(2)
    shapes = [images, other, images.reshape(2, 2, 8, 3)]
    assert len({CleanSet(array, labels).digest for array in shapes}) == 3
    assert CleanSet(images, labels).digest == CleanSet(images.copy(), labels).digest
