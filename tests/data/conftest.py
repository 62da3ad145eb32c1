"""Tiny datasets in the official layouts, made on the spot."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Every test has a cache of its own, and no data folder from the environment."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("MULTIPOOL_CACHE", str(folder))
    monkeypatch.delenv("MULTIPOOL_DATA", raising=False)
    return folder


@pytest.fixture
def jpeg():
    """Return the bytes of a JPEG of one colour, so that decoding gives that colour back."""
    from PIL import Image

    def make(colour=(120, 60, 30), size=(64, 64)):
        file = io.BytesIO()
        Image.new("RGB", size, tuple(int(c) for c in colour)).save(file, "JPEG", quality=95)
        return file.getvalue()

    return make


@pytest.fixture
def class_tree(jpeg):
    """Write ``root/<class>/<class>_<i>.JPEG``; colours say the class and the image."""

    def make(root: Path, classes, each=2, size=(64, 64), shift=0):
        for c, name in enumerate(classes):
            (root / name).mkdir(parents=True)
            for i in range(each):
                colour = (20 * c + 20, 40 * i + 20, shift)
                (root / name / f"{name}_{i}.JPEG").write_bytes(jpeg(colour, size))
        return root

    return make


@pytest.fixture
def official_cifar(rng):
    """Write CIFAR-C arrays of ``count`` images a severity; pixel [0,0,0] is the severity."""

    def make(folder: Path, domains, count=20, num_classes=10):
        folder.mkdir(parents=True)
        labels = np.tile(rng.permutation(count) % num_classes, 5).astype(np.uint8)
        np.save(folder / "labels.npy", labels)
        for domain in domains:
            images = rng.integers(0, 256, (5 * count, 32, 32, 3), dtype=np.uint8)
            images[:, 0, 0, 0] = np.repeat([1, 2, 3, 4, 5], count)
            np.save(folder / f"{domain}.npy", images)
        return labels[:count].astype(np.int64)

    return make


@pytest.fixture(scope="session")
def shared():
    """Return the folder of real data, or skip."""
    place = os.environ.get("MULTIPOOL_SHARED") or Path(__file__).parents[2] / ".." / "shared"
    folder = Path(place) / "data"
    if not (folder / "cifar10_test.npz").is_file():
        pytest.skip("the real data is not on this machine (MULTIPOOL_SHARED)")
    return folder
