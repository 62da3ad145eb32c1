"""A user's own pictures."""

from __future__ import annotations

import numpy as np
import pytest

from multipool.data import Stream, StreamConfig, load


@pytest.fixture
def root(tmp_path, class_tree):
    class_tree(tmp_path / "night", ["cat", "dog"], each=3, size=(50, 40))
    class_tree(tmp_path / "day", ["cat", "ant"], each=2, size=(40, 50))
    class_tree(tmp_path / "source", ["ant", "cat", "dog"], each=1)
    return tmp_path


def test_domains_and_classes_are_the_sorted_folders_and_source_is_not_a_domain(root):
    dataset = load("folder", root, size=32)
    assert dataset.domains == ("day", "night")
    assert dataset.classes == ("ant", "cat", "dog")
    assert dataset.labels("night").tolist() == [1, 1, 1, 2, 2, 2]
    assert dataset.images("day", np.array([3])).shape == (1, 3, 32, 32)
    assert dataset.source().labels.tolist() == [0, 1, 2]
    assert sum(len(b) for b in Stream(dataset, StreamConfig(batch_size=4))) == 10


def test_domains_keep_the_order_in_which_they_are_named(root):
    assert load("folder", root, domains=("night", "day")).domains == ("night", "day")
    assert load("folder", root).size == 224
    with pytest.raises(ValueError, match="unknown domain folder 'dusk'"):
        load("folder", root, domains=("dusk",))


def test_missing_parts_are_one_sentence(tmp_path, class_tree):
    with pytest.raises(FileNotFoundError, match="must hold <domain>/<class>/<image>"):
        load("folder", tmp_path)
    (tmp_path / "day").mkdir()
    with pytest.raises(FileNotFoundError, match="have neither class folders nor pictures"):
        load("folder", tmp_path)
    (tmp_path / "day" / "cat").mkdir()
    with pytest.raises(ValueError, match="at least 2 class folders, got 1"):
        load("folder", tmp_path)
    (tmp_path / "day" / "dog").mkdir()
    dataset = load("folder", tmp_path)
    with pytest.raises(FileNotFoundError, match="has no images in class folders"):
        dataset.labels("day")
    with pytest.raises(FileNotFoundError, match="put them into .*source/<class>/"):
        dataset.source()


@pytest.fixture
def unlabelled(tmp_path, class_tree):
    """Two domains of pictures without classes."""
    class_tree(tmp_path / "made", ["one", "two"], each=3, size=(40, 40))
    for domain, name in (("day", "one"), ("night", "two")):
        (tmp_path / "made" / name).rename(tmp_path / domain)
    (tmp_path / "made").rmdir()
    return tmp_path


def test_pictures_without_class_folders_have_no_labels_and_come_in_the_order_of_names(unlabelled):
    dataset = load("folder", unlabelled, size=8)
    assert (dataset.labelled, dataset.num_classes, dataset.classes) == (False, 0, None)
    stream = Stream(dataset, StreamConfig(batch_size=4))
    shown = [
        dataset.path_of(dataset.domains[d], int(row))
        for d, row in zip(stream.domain_ids, stream.rows, strict=True)
    ]
    assert shown == sorted(shown)
    assert len(shown) == 6
    assert all((unlabelled / path).is_file() for path in shown)


def test_class_folders_in_some_domains_only_are_one_sentence(unlabelled, class_tree):
    class_tree(unlabelled / "dusk", ["cat", "dog"], each=1)
    with pytest.raises(ValueError, match="day has pictures without class folders, .*dusk has"):
        load("folder", unlabelled)


def test_a_domain_without_any_picture_is_named(unlabelled):
    (unlabelled / "empty").mkdir()
    dataset = load("folder", unlabelled)
    with pytest.raises(FileNotFoundError, match="empty has no images"):
        dataset.labels("empty")


def test_a_list_of_all_classes_gives_the_labels_of_those_present(root, tmp_path):
    (tmp_path / "classes.txt").write_text("zebra\ndog\n\nant\ncat\n")
    dataset = load("folder", root, class_list=tmp_path / "classes.txt")
    assert dataset.num_classes == 4
    assert dataset.outputs is None
    assert dataset.labels("night").tolist() == [3, 3, 3, 1, 1, 1]


def test_a_list_with_numbers_names_the_models_outputs(root, tmp_path):
    (tmp_path / "classes.txt").write_text("310 ant\n7 cat\n207 dog\n")
    dataset = load("folder", root, class_list=tmp_path / "classes.txt")
    assert (dataset.classes, dataset.outputs) == (("ant", "cat", "dog"), (310, 7, 207))
    assert dataset.labels("night").tolist() == [1, 1, 1, 2, 2, 2]
    (tmp_path / "classes.txt").write_text("310 ant\n7 cat\n")
    with pytest.raises(ValueError, match="has a folder 'dog' that is none of the 2 classes"):
        load("folder", root, class_list=tmp_path / "classes.txt").labels("night")


def test_what_corrupt_writes_is_what_folder_reads(tmp_path, class_tree):
    from multipool.data.write import copy_folder

    class_tree(tmp_path / "clean", ["cat", "dog"], each=2, size=(32, 32))
    copy_folder(tmp_path / "clean", tmp_path / "copy", ("fog", "contrast"), size=32)
    dataset = load("folder", tmp_path / "copy", size=32, severity=3)
    assert dataset.domains == ("contrast", "fog")
    assert dataset.severities == (1, 2, 3, 4, 5)
    assert dataset.classes == ("cat", "dog")
    everything = np.arange(4)
    third = dataset.images("fog", everything)
    assert (third == dataset.images("fog", everything, severity=3)).all()
    assert (third != dataset.images("fog", everything, severity=5)).any()
    assert dataset.path_of("fog", 0).startswith("fog/3/cat/")


def test_a_severity_that_is_not_there_is_one_sentence(tmp_path, class_tree):
    for level in ("1", "2"):
        class_tree(tmp_path / "fog" / level, ["cat", "dog"], each=1)
    with pytest.raises(ValueError, match="has severities 1, 2, got 5; pass --severity"):
        load("folder", tmp_path)
