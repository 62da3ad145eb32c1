"""What every dataset keeps to, and the real files where they are."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from multipool.data import DATASETS, Stream, StreamConfig, load, shapes_c
from multipool.data.datasets import BUILT_IN, _opener
from multipool.data.places import cache_folder


def test_unknown_names_and_options_are_one_sentence():
    with pytest.raises(ValueError, match="unknown dataset 'cifar10'; did you mean 'cifar10-c'"):
        load("cifar10")
    with pytest.raises(ValueError, match=r"domains must be a tuple .* pass \('fog',\)"):
        load("shapes-c", domains="fog")
    with pytest.raises(ValueError, match="seed must be a whole number .* got -1"):
        load("shapes-c", seed=-1)
    with pytest.raises(ValueError, match="severity must be 1 to 5, got 6"):
        load("shapes-c", severity=6)
    with pytest.raises(ValueError, match="unknown corruption 'fogg'; did you mean 'fog'"):
        load("shapes-c", domains=("fogg",))
    with pytest.raises(ValueError, match="domains must not repeat"):
        load("shapes-c", domains=("fog", "fog"))
    with pytest.raises(ValueError, match="at least one domain"):
        load("shapes-c", domains=())
    with pytest.raises(ValueError, match="size must be 1 to 4096"):
        load("folder", size=0)


def test_the_table_has_the_seven_datasets():
    assert list(DATASETS) == [
        "shapes-c",
        "cifar10-c",
        "cifar100-c",
        "tiny-imagenet-c",
        "imagenet-c",
        "domainnet126",
        "folder",
    ]


@pytest.fixture
def few_shapes(monkeypatch):
    """Draw fewer images than the dataset has."""
    monkeypatch.setitem(shapes_c.COUNTS, "test", 300)
    shapes_c.drawn.cache_clear()
    yield
    shapes_c.drawn.cache_clear()


@pytest.mark.usefixtures("few_shapes")
def test_the_embedded_dataset_needs_no_file():
    dataset = load("shapes-c", domains=("contrast", "brightness"))
    assert (dataset.num_classes, dataset.size) == (100, 32)
    assert len(dataset.classes) == 100
    stream = Stream(dataset, StreamConfig(limit=200, batch_size=50))
    assert np.bincount(stream.labels).tolist() == [2] * 100
    assert stream[0].images.shape == (50, 3, 32, 32)
    with pytest.raises(ValueError, match="unknown domain of shapes-c 'fog'"):
        dataset.images("fog", np.array([0]))
    with pytest.raises(ValueError, match="has severities 1, 2, 3, 4, 5, got 9"):
        dataset.images("contrast", np.array([0]), severity=9)
    with pytest.raises(ValueError, match="unknown split 'val'"):
        dataset.source("val")


def test_the_cache_lies_where_it_is_told(monkeypatch, tmp_path):
    assert cache_folder(tmp_path) == tmp_path
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "env"))
    assert cache_folder() == tmp_path / "env"
    monkeypatch.delenv("MULTIPOOL_CACHE")
    assert cache_folder().name == "multipool"


def test_the_room_imports_nothing_but_torch_numpy_and_safetensors():
    code = (
        "import sys, multipool.data; "
        "print([m for m in ('scipy', 'sklearn', 'PIL', 'pooch', 'typer', 'rich', 'yaml',"
        " 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "count", "classes", "size"),
    [("cifar10-c", 10_000, 10, 32), ("cifar100-c", 10_000, 100, 32)],
)
def test_the_real_cifar_files_load_as_they_are(shared, name, count, classes, size):
    dataset = load(name, shared, domains=("brightness",))
    assert (dataset.num_classes, dataset.size) == (classes, size)
    assert np.bincount(dataset.labels("brightness")).tolist() == [count // classes] * classes
    assert dataset.images("brightness", np.array([0, 9999])).shape == (2, 3, size, size)
    train, test = dataset.source("train"), dataset.source("test")
    assert (len(train.labels), len(test.labels)) == (2000, count)
    with np.load(shared / f"{name.removesuffix('-c')}_test.npz") as file:
        expected = torch.from_numpy(file["images"][[3, 5000]]).permute(0, 3, 1, 2)
    assert torch.equal(test.read(np.array([3, 5000])), expected)


@pytest.mark.slow
def test_the_real_tiny_imagenet_archive_loads_as_it_is(shared):
    dataset = load("tiny-imagenet-c", shared, domains=("brightness",))
    assert (dataset.num_classes, dataset.size) == (200, 64)
    assert np.bincount(dataset.labels("brightness")).tolist() == [50] * 200
    assert dataset.images("brightness", np.array([0, 9999])).shape == (2, 3, 64, 64)
    assert list(dataset.classes) == sorted(dataset.classes)
    assert len(dataset.source("test").labels) == 10_000


def test_what_a_package_opens_must_be_a_dataset(monkeypatch):
    monkeypatch.setitem(DATASETS, "odd", _opener("odd", lambda options: 3))
    with pytest.raises(ValueError, match="dataset 'odd' must have .*, int, has no num_classes, do"):
        load("odd")
    monkeypatch.setitem(DATASETS, "fine", _opener("fine", BUILT_IN["shapes-c"]))
    assert load("fine").num_classes == 100
