"""Source data and adapters of the tiny network, for the tests of this folder."""

import sys
from pathlib import Path

import pytest
import torch

from multipool.methods import adapt

sys.path.insert(0, str(Path(__file__).parent))  # for faults.py


@pytest.fixture
def source(make_images):
    images = make_images(96, seed=77)
    return [(images[i : i + 32], torch.arange(32) % 5) for i in (0, 32, 64)]


@pytest.fixture
def build(make_net, source):
    def make(name, memory=None, **more):
        return adapt(make_net(), name, memory, source=source, seed=1, **more)

    return make
