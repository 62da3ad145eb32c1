"""Tiny-ImageNet-C: validation set as folder or archive, official folders, faults."""

from __future__ import annotations

import io
import tarfile
import zipfile

import numpy as np
import pytest
import torch

from multipool.data import load

WNIDS = ("n03", "n01", "n02")  # not sorted: labels are positions in the sorted list
TWO = ("fog", "contrast")


def official(jpeg, extra=None):
    """Return the files of a six-image validation set in the official layout."""
    files = {"wnids.txt": "\n".join(WNIDS).encode()}
    lines = []
    for i in range(6):
        lines.append(f"val_{i}.JPEG\t{WNIDS[i % 3]}\t0\t0\t1\t1")
        files[f"val/images/val_{i}.JPEG"] = jpeg((40 * i, 10, 10))
    files["val/val_annotations.txt"] = "\n".join(lines).encode()
    return {**files, **(extra or {})}


def write_folder(files, root):
    for name, content in files.items():
        path = root / "tiny-imagenet-200" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_tar(files, root):
    with tarfile.open(root / "tiny-imagenet-200-val.tar", "w") as file:
        for name, content in files.items():
            info = tarfile.TarInfo(f"tiny-imagenet-200/{name}")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


def write_zip(files, root):
    with zipfile.ZipFile(root / "tiny-imagenet-200.zip", "w") as file:
        for name, content in files.items():
            file.writestr(f"tiny-imagenet-200/{name}", content)


@pytest.mark.parametrize("write", [write_folder, write_tar, write_zip])
def test_labels_are_positions_among_the_sorted_wnids(tmp_path, jpeg, write, own_cache):
    write(official(jpeg), tmp_path)
    dataset = load("tiny-imagenet-c", tmp_path, domains=TWO)
    assert (dataset.num_classes, dataset.size) == (3, 64)
    assert dataset.classes == ("n01", "n02", "n03")
    assert dataset.labels("fog").tolist() == [2, 0, 1, 2, 0, 1]
    reds = dataset.source("test").read(np.arange(6))[:, 0].float().mean(dim=(1, 2))
    assert torch.allclose(reds, 40.0 * torch.arange(6), atol=3)
    assert dataset.images("fog", np.array([0, 5])).shape == (2, 3, 64, 64)
    # A second look reads the decoded copy.
    assert len(list((own_cache / "tiny-imagenet-200").iterdir())) == 1
    again = load("tiny-imagenet-c", tmp_path, domains=TWO)
    assert torch.equal(again.source("test").whole().images, dataset.source("test").whole().images)


def test_validation_images_never_serve_as_training_images(tmp_path, jpeg):
    write_tar(official(jpeg), tmp_path)
    dataset = load("tiny-imagenet-c", tmp_path, domains=TWO)
    with pytest.raises(FileNotFoundError, match="tiny-imagenet-200-train2k.tar there"):
        dataset.source("train")
    test = dataset.source("test")
    assert (len(test.labels), test.split) == (6, "test")
    assert test.note.startswith("the source data are 6 clean test images, of which the stream")


def write_training(root, files):
    with tarfile.open(root / "tiny-imagenet-200-train2k.tar", "w") as file:
        for name, content in files.items():
            info = tarfile.TarInfo(f"tiny-imagenet-200/{name}")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


def test_a_training_archive_is_decoded_once_with_the_labels_of_the_stream(
    tmp_path, jpeg, own_cache
):
    write_tar(official(jpeg), tmp_path)
    pictures = {
        f"train/{wnid}/images/{wnid}_{i}.JPEG": jpeg((200, 40 * c, 90 * i))
        for c, wnid in enumerate(("n02", "n03"))
        for i in range(2)
    }
    write_training(tmp_path, {**pictures, "train/n02/n02_boxes.txt": b"boxes"})
    source = load("tiny-imagenet-c", tmp_path, domains=TWO).source("train")
    assert source.labels.tolist() == [1, 1, 2, 2]
    greens = source.read(np.arange(4))[:, 1].float().mean(dim=(1, 2))
    assert torch.allclose(greens, torch.tensor([0.0, 0.0, 40.0, 40.0]), atol=3)
    assert len(list((own_cache / "tiny-imagenet-200").glob("train-*.npz"))) == 1
    again = load("tiny-imagenet-c", tmp_path, domains=TWO).source("train")
    assert torch.equal(again.whole().images, source.whole().images)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"train/n99/images/a.JPEG": b"x"}, "has pictures of n99, none of the 3 classes"),
        ({"train/n01/images/a.JPEG": b"junk"}, "a.JPEG of .* does not decode as an image"),
        ({"val/images/a.JPEG": b"x"}, "has no tiny-imagenet-200/train/<wnid>/images"),
    ],
)
def test_a_wrong_training_archive_is_one_sentence(tmp_path, jpeg, files, sentence):
    write_tar(official(jpeg), tmp_path)
    write_training(tmp_path, files)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        load("tiny-imagenet-c", tmp_path, domains=TWO).source("train")
    assert "\n" not in str(caught.value)


def test_training_images_are_used_where_they_are(tmp_path, jpeg, class_tree):
    write_folder(official(jpeg), tmp_path)
    for wnid in WNIDS:
        class_tree(tmp_path / "tiny-imagenet-200" / "train" / wnid, ["images"], each=3)
    source = load("tiny-imagenet-c", tmp_path, domains=TWO).source("train")
    assert source.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert source.split == "train"
    assert source.read(np.array([8, 0])).shape == (2, 3, 64, 64)


def test_a_validation_set_sorted_into_class_folders_is_read(tmp_path, class_tree):
    class_tree(tmp_path / "tiny-imagenet-200" / "val", sorted(WNIDS))
    dataset = load("tiny-imagenet-c", tmp_path, domains=TWO)
    assert dataset.labels("fog").tolist() == [0, 0, 1, 1, 2, 2]


def test_the_official_corrupted_folders_come_first(tmp_path, class_tree):
    for shift, domain in enumerate(TWO):
        class_tree(tmp_path / "Tiny-ImageNet-C" / domain / "5", sorted(WNIDS), shift=100 * shift)
    dataset = load("tiny-imagenet-c", tmp_path, domains=TWO)
    assert dataset.lazy
    blues = [dataset.images(d, np.arange(6))[:, 2].float().mean() for d in TWO]
    assert abs(blues[1] - blues[0] - 100) < 5


def broken(jpeg, name, content):
    return official(jpeg, {name: content})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("val/images/val_3.JPEG", b"junk", "val_3.JPEG of .* does not decode as an image"),
        ("val/val_annotations.txt", b"val_9.JPEG\tn01", "names val_9.JPEG, which is not there"),
        ("val/val_annotations.txt", b"val_0.JPEG\tn99", "has the class n99, not in wnids.txt"),
        ("val/val_annotations.txt", b"what is this", "must have a file and a wnid on every line"),
        ("../../evil.txt", b"x", "which leaves its folder; nothing of it is used"),
    ],
)
def test_faults_are_one_sentence_and_nothing_is_kept(
    tmp_path, jpeg, own_cache, name, content, sentence
):
    folder = tmp_path / "deep" / "data"
    folder.mkdir(parents=True)
    write_tar(broken(jpeg, name, content), folder)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        load("tiny-imagenet-c", folder, domains=TWO)
    assert "\n" not in str(caught.value)
    assert [p for p in own_cache.rglob("*") if p.is_file()] == []
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["tiny-imagenet-200-val.tar"]


def test_missing_data_is_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Tiny-ImageNet in .*'multipool data fetch"):
        load("tiny-imagenet-c", tmp_path)
