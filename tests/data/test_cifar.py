"""CIFAR-C: official arrays, three layouts of the clean set, and what can be wrong with them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from multipool.data import COMMON, Stream, StreamConfig, load
from multipool.data.corruptions import corrupt

TWO = ("fog", "contrast")


def clean(rng, count=40, num_classes=10):
    images = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return images, np.arange(count) % num_classes


def save_npz(path, images, labels, num_classes=10):
    names = np.asarray([f"class{i}" for i in range(num_classes)])
    np.savez(path, images=images, labels=labels, classes=names)


def test_the_official_arrays_are_read_at_the_severity_asked_for(tmp_path, official_cifar):
    labels = official_cifar(tmp_path / "CIFAR-10-C", COMMON)
    dataset = load("cifar10-c", tmp_path, severity=3)
    assert dataset.domains == COMMON
    assert (dataset.num_classes, dataset.size) == (10, 32)
    np.testing.assert_array_equal(dataset.labels("fog"), labels)
    stored = np.load(tmp_path / "CIFAR-10-C" / "fog.npy")
    rows = np.array([7, 0, 19])
    images = dataset.images("fog", rows)
    assert images.shape == (3, 3, 32, 32)
    np.testing.assert_array_equal(images.permute(0, 2, 3, 1).numpy(), stored[40 + rows])
    assert dataset.images("fog", rows, severity=5)[:, 0, 0, 0].tolist() == [5, 5, 5]


def test_the_data_folder_may_be_the_official_folder_itself(tmp_path, official_cifar, monkeypatch):
    official_cifar(tmp_path / "CIFAR-100-C", TWO, num_classes=100)
    monkeypatch.setenv("MULTIPOOL_DATA", str(tmp_path / "CIFAR-100-C"))
    assert load("cifar100-c", domains=TWO).num_classes == 100


def test_copies_made_from_an_npz_are_what_corrupt_makes(tmp_path, rng):
    images, labels = clean(rng)
    save_npz(tmp_path / "cifar10_test.npz", images, labels)
    dataset = load("cifar10-c", tmp_path, domains=TWO, severity=2, seed=4)
    assert dataset.classes == tuple(f"class{i}" for i in range(10))
    ours = dataset.images("contrast", np.arange(40)).permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(ours, corrupt(images, "contrast", severity=2, seed=4))
    np.testing.assert_array_equal(dataset.labels("fog"), labels)


def test_pickled_batches_class_folders_and_npz_give_the_same_clean_images(tmp_path, rng):
    images, labels = clean(rng, count=20)
    rows = images.transpose(0, 3, 1, 2).reshape(20, 3072)
    names = [f"class{i}" for i in range(10)]
    batches = tmp_path / "batches" / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    content = {b"data": rows, b"labels": labels.tolist()}
    (batches / "test_batch").write_bytes(pickle.dumps(content, protocol=2))
    for i in range(1, 6):
        (batches / f"data_batch_{i}").write_bytes(pickle.dumps(content, protocol=2))
    (batches / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))
    (tmp_path / "arrays").mkdir()
    save_npz(tmp_path / "arrays" / "cifar10_test.npz", images, labels)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = tmp_path / "folders" / "cifar10" / "test" / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{i:03}.png")
    order = np.argsort(labels, kind="stable")  # class folders are listed class by class
    for layout, rows in (("batches", np.arange(20)), ("arrays", np.arange(20)), ("folders", order)):
        dataset = load("cifar10-c", tmp_path / layout, domains=TWO)
        whole = dataset.source("test").whole()
        np.testing.assert_array_equal(whole.images.permute(0, 2, 3, 1).numpy(), images[rows])
        np.testing.assert_array_equal(whole.labels.numpy(), labels[rows])
        assert dataset.classes == tuple(names)
    train = load("cifar10-c", tmp_path / "batches", domains=TWO).source("train")
    assert len(train.labels) == 100


def test_cifar100_batches_use_fine_labels(tmp_path, rng):
    images, labels = clean(rng, count=10, num_classes=100)
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    content = {b"data": images.transpose(0, 3, 1, 2).reshape(10, 3072)}
    content |= {b"fine_labels": labels.tolist(), b"coarse_labels": [0] * 10}
    for split in ("train", "test"):
        (folder / split).write_bytes(pickle.dumps(content, protocol=2))
    dataset = load("cifar100-c", tmp_path, domains=TWO)
    np.testing.assert_array_equal(dataset.labels("fog"), labels)
    assert torch.equal(
        dataset.source("train").whole().images,
        torch.from_numpy(images).permute(0, 3, 1, 2),
    )


def test_a_stream_over_copies_is_the_same_before_and_after_they_are_cached(tmp_path, rng):
    save_npz(tmp_path / "cifar10_test.npz", *clean(rng))
    config = StreamConfig(batch_size=16)
    first = [b.images for b in Stream(load("cifar10-c", tmp_path, domains=TWO), config)]
    second = [b.images for b in Stream(load("cifar10-c", tmp_path, domains=TWO), config)]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def break_truncated(folder):
    path = folder / "fog.npy"
    path.write_bytes(path.read_bytes()[:-1000])


def break_header(folder):
    (folder / "fog.npy").write_bytes(b"not an array")


def break_labels(folder):
    np.save(folder / "labels.npy", np.full(100, 10))


def break_missing(folder):
    (folder / "fog.npy").unlink()


def break_pickled(folder):
    np.save(folder / "fog.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)


def break_length(folder):
    np.save(folder / "fog.npy", np.zeros((50, 32, 32, 3), np.uint8))


def break_dtype(folder):
    np.save(folder / "fog.npy", np.zeros((100, 32, 32, 3), np.float32))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (break_truncated, "fog.npy is not a complete .npy file .*; fetch it again"),
        (break_header, "fog.npy is not a complete .npy file"),
        (break_labels, "labels.npy must lie in 0 to 9, got 10"),
        (break_missing, "has no fog.npy; fetch the official set again or leave fog out"),
        (break_pickled, "fog.npy is not a complete .npy file"),
        (break_length, "fog.npy has 50 images but there are 100 labels"),
        (break_dtype, r"must hold uint8 images \(N, 32, 32, 3\), got float32"),
    ],
)
def test_damaged_official_files_are_one_sentence(tmp_path, official_cifar, damage, sentence):
    official_cifar(tmp_path / "CIFAR-10-C", TWO)
    damage(tmp_path / "CIFAR-10-C")
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        load("cifar10-c", tmp_path, domains=TWO)
    assert "\n" not in str(caught.value)


def test_damaged_npz_files_are_one_sentence(tmp_path, rng):
    path = tmp_path / "cifar10_test.npz"
    images, labels = clean(rng)
    np.savez(path, images=images)
    with pytest.raises(ValueError, match="has no 'labels'"):
        load("cifar10-c", tmp_path)
    save_npz(path, images, labels + 1)
    with pytest.raises(ValueError, match="must lie in 0 to 9, got 10"):
        load("cifar10-c", tmp_path)
    save_npz(path, images, labels[:-1])
    with pytest.raises(ValueError, match="has 40 images but 39 labels"):
        load("cifar10-c", tmp_path)
    save_npz(path, images, labels)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match="is not a readable .npz file") as caught:
        load("cifar10-c", tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_data_names_the_files_and_where_to_get_them(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"cifar10_test.npz, cifar-10-batches-py or .*fetch"
    ):
        load("cifar10-c", tmp_path)
    with pytest.raises(FileNotFoundError, match="set MULTIPOOL_DATA"):
        load("cifar10-c")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        load("cifar10-c", tmp_path / "nothing")


def test_official_arrays_without_clean_images_have_no_source(tmp_path, official_cifar):
    official_cifar(tmp_path / "CIFAR-10-C", TWO)
    with pytest.raises(FileNotFoundError, match="no CIFAR-10 train images"):
        load("cifar10-c", tmp_path, domains=TWO).source()
