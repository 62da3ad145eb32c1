"""Written copies: official layout, whole files, resumed, and equal to copies made on demand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from multipool.data import write
from multipool.data.corrupted_files import FileCopies
from multipool.data.corruptions import corrupt
from multipool.data.files import Framing, class_folders
from multipool.data.write import copy_dataset, copy_folder, write_cifar_c, write_folders

NAMES = ("fog", "contrast")


@pytest.fixture
def clean():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8), np.array([0, 3, 9, 1, 1, 7])


def test_arrays_hold_five_severities_one_after_the_other(clean, tmp_path):
    images, labels = clean
    told = []
    written = write_cifar_c(images, labels, tmp_path / "c", NAMES, 4, lambda *x: told.append(x))
    assert [p.name for p in written] == ["labels.npy", "fog.npy", "contrast.npy"]
    assert told[-1] == ("contrast", 5, 5)
    found = np.load(tmp_path / "c" / "fog.npy")
    assert found.shape == (30, 32, 32, 3)
    for level in range(1, 6):
        rows = slice(6 * (level - 1), 6 * level)
        assert np.array_equal(found[rows], corrupt(images, "fog", level, seed=4))
    assert np.array_equal(np.load(tmp_path / "c" / "labels.npy"), np.tile(labels, 5))


def test_a_second_call_makes_only_what_is_missing(clean, tmp_path):
    write_cifar_c(*clean, tmp_path / "c", ["fog"])
    before = (tmp_path / "c" / "fog.npy").stat().st_mtime_ns
    assert [p.name for p in write_cifar_c(*clean, tmp_path / "c", NAMES)] == ["contrast.npy"]
    assert (tmp_path / "c" / "fog.npy").stat().st_mtime_ns == before


def test_an_interrupted_call_leaves_no_half_file_and_can_go_on(clean, tmp_path, monkeypatch):
    def breaks(images, name, severity, seed):
        if severity == 3:
            raise KeyboardInterrupt
        return corrupt(images, name, severity, seed)

    monkeypatch.setattr(write, "corrupt", breaks)
    with pytest.raises(KeyboardInterrupt):
        write_cifar_c(*clean, tmp_path / "c", NAMES)
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["labels.npy", "multipool.json"]
    monkeypatch.undo()
    assert len(write_cifar_c(*clean, tmp_path / "c", NAMES)) == 2


def test_a_folder_of_something_else_is_refused(clean, tmp_path):
    images, labels = clean
    (tmp_path / "official").mkdir()
    (tmp_path / "official" / "labels.npy").write_bytes(b"precious")
    with pytest.raises(ValueError, match="holds other files"):
        write_cifar_c(images, labels, tmp_path / "official", NAMES)
    assert (tmp_path / "official" / "labels.npy").read_bytes() == b"precious"
    write_cifar_c(images, labels, tmp_path / "c", ["fog"], seed=0)
    with pytest.raises(ValueError, match="another seed"):
        write_cifar_c(images, labels, tmp_path / "c", ["fog"], seed=1)
    with pytest.raises(ValueError, match="other images"):
        write_cifar_c(images[::-1], labels, tmp_path / "c", ["fog"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"names": ["mist"]}, "unknown corruption 'mist'"),
        ({"labels": [1]}, "got 6 and 1"),
        ({"images": np.zeros((0, 32, 32, 3), np.uint8), "labels": []}, "at least 1"),
    ],
)
def test_wrong_arguments_write_nothing(change, words, clean, tmp_path):
    arguments = {"images": clean[0], "labels": clean[1], "names": NAMES, **change}
    with pytest.raises(ValueError, match=words):
        write_cifar_c(out_dir=tmp_path / "c", **arguments)
    assert not (tmp_path / "c").exists()


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(1)
    for name in ("a/1.jpg", "a/2.png", "b/1.jpg"):
        path = tmp_path / "val" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    return class_folders(tmp_path / "val", ["a", "b"], Framing(64, 64))


def test_folders_have_the_official_layout_and_the_bytes_of_copies_on_demand(pictures, tmp_path):
    def read(i):
        return pictures.array([i])[0]

    done = write_folders(pictures.names, read, tmp_path / "out", NAMES, (1, 5), seed=2)
    assert done == 2 * 2 * 3
    found = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")}
    assert found == {
        f"{n}/{s}/{p}.JPEG" for n in NAMES for s in (1, 5) for p in ("a/1", "a/2", "b/1")
    } | {"multipool.json"}
    copies = FileCopies(pictures, tmp_path / "cache", seed=2)
    on_demand = copies("fog", 5, np.arange(3)).permute(0, 2, 3, 1).numpy()
    for place, wanted in zip(("a/1", "a/2", "b/1"), on_demand, strict=True):
        with Image.open(tmp_path / "out" / "fog" / "5" / f"{place}.JPEG") as picture:
            assert np.array_equal(np.asarray(picture), wanted)


def test_missing_pictures_are_made_again_with_the_same_bytes(pictures, tmp_path):
    def read(i):
        return pictures.array([i])[0]

    write_folders(pictures.names, read, tmp_path / "out", ["snow"], [3])
    lost = tmp_path / "out" / "snow" / "3" / "b" / "1.JPEG"
    before = lost.read_bytes()
    lost.unlink()
    assert write_folders(pictures.names, read, tmp_path / "out", ["snow"], [3]) == 1
    assert lost.read_bytes() == before


@pytest.mark.parametrize(
    ("names", "severities", "words"),
    [
        (["../x.png"], [1], "leaves its folder"),
        (["a/1.png", "a/1.jpg"], [1], "a name of its own"),
        (["a/1.png"], [6], "severities must be 1 to 5, got 6"),
    ],
)
def test_pictures_that_cannot_be_written_are_refused(names, severities, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        write_folders(names, lambda i: None, tmp_path / "out", ["fog"], severities)
    assert not (tmp_path / "out").exists()


def test_the_note_says_what_the_folder_was_made_from(clean, tmp_path):
    write_cifar_c(*clean, tmp_path / "c", ["fog"], seed=7)
    note = json.loads((tmp_path / "c" / "multipool.json").read_text())
    assert note["seed"] == 7
    assert note["layout"] == "cifar-c"


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
    with pytest.raises(FileNotFoundError, match="no folder at .*must hold <class>"):
        copy_folder(tmp_path / "gone", tmp_path / "o", ["fog"])
