"""Present, complete, unchanged: what is said about whole and damaged datasets."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from multipool.data import COMMON, DATASETS, domainnet
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
            assert item.size % 1_000_000, f"the size of {item.file} is rounded"


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


@pytest.fixture
def domainnet126(tmp_path, jpeg, monkeypatch):
    """Write four lists of three pictures each, and take their sums for the published ones."""
    home, sums = tmp_path / "domainnet126", {}
    for domain in domainnet.DOMAINS:
        names = [f"{domain}/class_{i}/{domain}_{i}.jpg" for i in range(3)]
        for name in names:
            (home / name).parent.mkdir(parents=True)
            (home / name).write_bytes(jpeg(size=(8, 8)))
        text = "".join(f"{name} {i}\n" for i, name in enumerate(names)).encode()
        (home / f"{domain}_list.txt").write_bytes(text)
        sums[f"{domain}_list.txt"] = hashlib.md5(text).hexdigest()
    entry = CATALOG["domainnet126"]
    items = tuple(replace(item, md5=sums.get(item.file, item.md5)) for item in entry.downloads)
    monkeypatch.setitem(CATALOG, "domainnet126", replace(entry, downloads=items))
    return home


def test_the_source_of_domainnet_is_counted_with_its_other_domains(tmp_path, domainnet126):
    told = []
    report = check("domainnet126", tmp_path, decode=True, tell=told.append)
    assert (report.state, report.faults) == ("complete", ())
    expected = "4 of 4 domains (real, clipart, painting, sketch), 12 images, 126 classes"
    assert report.found == expected
    assert told[:2] == ["checksum of real_list.txt", "reading real"]


@pytest.mark.parametrize("place", ["DomainNet-126", "."])
def test_lists_are_compared_wherever_they_are_read_from(tmp_path, domainnet126, place):
    for path in list(domainnet126.iterdir()):
        (tmp_path / place).mkdir(exist_ok=True)
        path.rename(tmp_path / place / path.name)
    domainnet126.rmdir()
    assert check("domainnet126", tmp_path).state == "complete"
    (tmp_path / place / "real_list.txt").write_bytes(b"real/class_0/real_0.jpg 1\n")
    assert check("domainnet126", tmp_path).state == "damaged"


def test_lists_with_the_line_ends_of_windows_are_the_published_ones(tmp_path, domainnet126):
    for path in domainnet126.glob("*_list.txt"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    report = check("domainnet126", tmp_path)
    assert (report.state, report.faults) == ("complete", ())


@pytest.mark.parametrize("domain", domainnet.DOMAINS)
def test_a_list_with_lines_left_out_or_another_label_is_not_the_published_one(
    tmp_path, domainnet126, domain
):
    path = domainnet126 / f"{domain}_list.txt"
    whole = path.read_bytes()
    other = whole.replace(b" 2\n", b" 1\n")
    shorter = b"".join(whole.splitlines(keepends=True)[:2])
    for text, count in ((other, 3), (shorter, 2)):
        path.write_bytes(text)
        report = check("domainnet126", tmp_path)
        assert report.state == "damaged"
        assert report.found.startswith("4 of 4 domains")
        (fault,) = report.faults
        assert fault.startswith(f"{path} is not the published list: it names {count} pictures")
        assert f"the published one {domainnet.PUBLISHED[domain]:,}" in fault
        assert "\n" not in fault


def test_a_part_of_domainnet_is_said_to_be_one(tmp_path, domainnet126):
    for domain in ("painting", "sketch"):
        (domainnet126 / f"{domain}_list.txt").unlink()
    (domainnet126 / "real" / "class_1" / "real_1.jpg").unlink()
    (domainnet126 / "real" / "class_2" / "real_2.jpg").unlink()
    report = check("domainnet126", tmp_path)
    assert report.state == "incomplete"
    assert report.found == "1 of 4 domains (clipart), 3 images, 126 classes"
    real, painting, sketch = report.faults
    assert "lacks 2 of the 3 pictures that real_list.txt names, the first is" in real
    assert "real/class_1/real_1.jpg" in real
    assert "has no painting_list.txt" in painting
    assert "has no sketch_list.txt" in sketch


def test_a_domain_of_domainnet_that_cannot_be_read_does_not_hide_the_others(tmp_path, domainnet126):
    (domainnet126 / "sketch_list.txt").write_text("sketch/class_0/sketch_0.jpg 126\n")
    (domainnet126 / "painting_list.txt").write_bytes(b"\xff\xfe")
    (domainnet126 / "clipart" / "class_0" / "clipart_0.jpg").write_bytes(b"junk")
    report = check("domainnet126", tmp_path, decode=True)
    assert report.state == "damaged"
    assert report.found == "2 of 4 domains (real, clipart), 6 images, 126 classes"
    said = " | ".join(report.faults)
    for sentence in (
        "clipart_0.jpg does not decode",
        "no readable list of images at",
        "must lie in 0 to 125, got 126",
    ):
        assert sentence in said


def test_a_stray_list_of_domainnet_is_not_a_crash(tmp_path):
    (tmp_path / "real_list.txt").write_text("real/none.jpg 0\n")
    report = check("domainnet126", tmp_path)
    assert report.state == "damaged"
    assert report.found == "0 of 4 domains, 0 images, 126 classes"
    (tmp_path / "real_list.txt").unlink()
    (tmp_path / "domainnet126").mkdir()
    assert check("domainnet126", tmp_path).state == "damaged"  # an empty folder, as before


def test_an_archive_of_domainnet_that_lies_there_is_compared(tmp_path, domainnet126):
    (tmp_path / "real.zip").write_bytes(b"no archive")
    (fault,) = check("domainnet126", tmp_path).faults
    assert "real.zip has the MD5 sum" in fault
