"""A stream of two domains for the tiny network."""

import pytest
import torch


@pytest.fixture
def stream(make_images):
    """Return batches that change their domain, plain and striped, after every third."""
    stripes = (torch.arange(8) % 2 == 0).float().expand(8, 8)

    def make(batches=12, size=64):
        found = [make_images(size, seed=t) for t in range(batches)]
        return [0.3 * x + 0.7 * stripes if t // 3 % 2 else x for t, x in enumerate(found)]

    return make
