"""Present, complete, unchanged: what is said about whole and damaged datasets."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from multipool.data import COMMON, DATASETS
from multipool.data.catalog import CATALOG
from multipool.data.check import TRACES, check
from multipool.data.corruptions import CORRUPTIONS

WNIDS = ("n01", "n02")


def test_every_dataset_is_in_the_catalogue():
    assert list(CATALOG) == list(DATASETS) == list(TRACES)
    for name, entry in CATALOG.items():
        assert entry.about, name
        assert entry.licence, name
        for item in entry.downloads:
            assert item.url.startswith("http")
            assert len(item.md5) == 32
            assert item.size > 0


def test_checksums_cover_every_corruption_and_the_labels():
    for name in ("cifar10-c", "cifar100-c"):
        sums = CATALOG[name].arrays
        assert set(sums) == {*CORRUPTIONS, "labels"}
        assert len(set(sums.values())) == len(sums)


def test_the_embedded_dataset_is_always_complete():
    assert check("shapes-c").state == "complete"


@pytest.mark.parametrize("name", [n for n in DATASETS if n not in ("shapes-c", "folder")])
def test_what_is_not_there_is_absent(tmp_path, name):
    report = check(name, tmp_path)
    assert report.state == "absent"
    assert "\n" not in report.faults[0]
    assert check(name).state == "absent"  # no folder at all


def test_official_arrays_are_compared_with_the_published_sums(
    tmp_path, official_cifar, monkeypatch
):
    home = tmp_path / "CIFAR-10-C"
    official_cifar(home, COMMON)
    report = check("cifar10-c", tmp_path)
    assert report.state == "damaged"  # random images are not the published ones
    assert len(report.faults) == 16
    assert "the published one is" in report.faults[0]
    sums = {p.stem: hashlib.md5(p.read_bytes()).hexdigest() for p in home.glob("*.npy")}
    monkeypatch.setitem(CATALOG, "cifar10-c", replace(CATALOG["cifar10-c"], arrays=sums))
    told = []
    report = check("cifar10-c", tmp_path, tell=told.append)
    assert (report.state, report.faults) == ("complete", ())
    assert report.found == "15 domains, 300 images, 10 classes"
    assert "checksum of fog.npy" in told
    (home / "fog.npy").unlink()
    assert check("cifar10-c", tmp_path).state == "damaged"


def test_a_domain_with_fewer_images_than_the_others_is_noticed(tmp_path, class_tree):
    for domain in COMMON:
        class_tree(tmp_path / "ImageNet-C" / domain / "5", WNIDS, size=(32, 32))
    assert check("imagenet-c", tmp_path).state == "complete"
    (tmp_path / "ImageNet-C" / "fog" / "5" / "n01" / "n01_0.JPEG").unlink()
    report = check("imagenet-c", tmp_path)
    assert report.state == "damaged"
    assert report.faults == ("fog has 3 images, other domains have 4",)


def test_decoding_names_every_image_that_fails(tmp_path, class_tree):
    class_tree(tmp_path / "night", WNIDS, each=3)
    for name in ("n01_1", "n01_2"):
        (tmp_path / "night" / "n01" / f"{name}.JPEG").write_bytes(b"junk")
    assert check("folder", tmp_path).state == "complete"
    report = check("folder", tmp_path, decode=True)
    assert report.state == "damaged"
    assert ["n01_1.JPEG" in report.faults[0], "n01_2.JPEG" in report.faults[1]] == [True, True]


def test_a_damaged_npz_is_damaged_not_absent(tmp_path):
    np.savez(tmp_path / "cifar10_test.npz", images=np.zeros(3))
    assert check("cifar10-c", tmp_path).state == "damaged"


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown dataset"):
        check("mnist")


def test_a_dataset_of_another_package_is_opened_and_counted(monkeypatch):
    monkeypatch.setitem(DATASETS, "mine", DATASETS["shapes-c"])
    report = check("mine")
    assert (report.state, report.faults) == ("complete", ())
    assert report.found.endswith("100 classes")

    def absent(options):
        raise FileNotFoundError(f"no pictures in {options.data_dir}")

    monkeypatch.setitem(DATASETS, "mine", absent)
    report = check("mine", "somewhere")
    assert (report.state, report.where) == ("absent", "somewhere")
    assert report.faults == ("no pictures in somewhere",)


def test_pictures_without_labels_are_counted_as_such(tmp_path, class_tree):
    class_tree(tmp_path, ["day", "night"], each=2)
    assert check("folder", tmp_path).found == "2 domains, 4 images, no labels"
