"""Images to corrupt, and what it means that two random corruptions agree."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


def _shared() -> Path:
    return Path(os.environ.get("MULTIPOOL_SHARED", Path(__file__).parents[3] / "../shared"))


def _drawn(count: int, size: int) -> np.ndarray:
    """Smooth colour gradients with a few rectangles, from black to white: uint8 (B, H, W, 3)."""
    rng = np.random.default_rng(5)
    images = np.empty((count, size, size, 3))
    for image in images:
        corners = rng.uniform(0, 255, (2, 2, 3))
        t = np.linspace(0, 1, size)[:, None]
        left = corners[0, 0] * (1 - t) + corners[1, 0] * t
        right = corners[0, 1] * (1 - t) + corners[1, 1] * t
        image[:] = left[:, None] * (1 - t) + right[:, None] * t
        for _ in range(6):
            y, x = rng.integers(0, size, 2)
            h, w = rng.integers(2, size // 2, 2)
            image[y : y + h, x : x + w] = rng.choice([0, 255, *rng.uniform(0, 255, 3)], 3)
    return images.round().astype(np.uint8)


@pytest.fixture(scope="session")
def draw():
    return _drawn


@pytest.fixture(scope="session", params=["drawn", "cifar10"])
def photos(request) -> np.ndarray:
    """Return 96 images (96, 32, 32, 3), drawn here and, where the data is, of CIFAR-10."""
    if request.param == "drawn":
        return _drawn(96, 32)
    file = _shared() / "data" / "cifar10_test.npz"
    if not file.is_file():
        pytest.skip(f"no CIFAR-10 test set at {file}")
    with np.load(file) as data:
        return data["images"][:96]


@pytest.fixture(scope="session")
def shared() -> Path:
    return _shared()


@pytest.fixture(scope="session")
def same_change():
    """Return the check that two random changes have one mean and one spread."""

    def check(clean: np.ndarray, ours: np.ndarray, reference: np.ndarray, spread=0.06) -> None:
        changes = [np.asarray(x, dtype=float) - clean for x in (ours, reference)]
        means = [c.mean(axis=(1, 2, 3)) for c in changes]
        stds = [c.std(axis=(1, 2, 3)) for c in changes]
        for ours_each, theirs_each, slack in ((*means, 0.4), (*stds, spread * stds[1].mean())):
            gap = ours_each - theirs_each
            doubt = 3.5 * gap.std() / np.sqrt(len(gap))
            assert abs(gap.mean()) < doubt + slack, (ours_each.mean(), theirs_each.mean())
            assert doubt < 12, "too few images to say anything"

    return check
