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
    (tmp_path / "day" / "cat").mkdir(parents=True)
    with pytest.raises(ValueError, match="at least 2 class folders, got 1"):
        load("folder", tmp_path)
    (tmp_path / "day" / "dog").mkdir()
    dataset = load("folder", tmp_path)
    with pytest.raises(FileNotFoundError, match="has no images in class folders"):
        dataset.labels("day")
    with pytest.raises(FileNotFoundError, match="put them into .*source/<class>/"):
        dataset.source()
