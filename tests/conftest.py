"""What all tests share: a tiny network, seeded images, and where real data may lie."""

import importlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from multipool.testing import random_images
from multipool.testing import tiny_net as make_tiny_net

sys.path.insert(0, str(Path(__file__).parent))  # for kinds.py and libraries.py
importlib.import_module("libraries")  # before anything imports torchvision
collect_ignore = ["libraries.py"]  # has no tests, and declares what can be declared only once
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


@pytest.fixture
def tiny_net():
    return make_tiny_net()


@pytest.fixture
def make_net():
    return make_tiny_net


@pytest.fixture
def make_images():
    """Return what makes images (B, 3, 8, 8) of 8-bit values in [0, 1], by seed."""
    return random_images


@pytest.fixture(scope="session")
def shared():
    """Return the folder with real data and weights, or skip."""
    default = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("MULTIPOOL_SHARED", default))
    if not (folder / "data").is_dir():
        pytest.skip("no real data beside the repository (set MULTIPOOL_SHARED to its folder)")
    return folder
