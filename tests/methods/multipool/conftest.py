"""A stream of two domains for the tiny network, and streams that are saved on their way."""

import pytest
import torch

from multipool.methods import load


@pytest.fixture
def stream(make_images):
    """Return batches that change their domain, plain and striped, after every third."""
    stripes = (torch.arange(8) % 2 == 0).float().expand(8, 8)

    def make(batches=12, size=64):
        found = [make_images(size, seed=t) for t in range(batches)]
        return [0.3 * x + 0.7 * stripes if t // 3 % 2 else x for t, x in enumerate(found)]

    return make


@pytest.fixture
def resumed(tmp_path, make_images):
    """Return what goes on from a file of an adapter, equal to the last bit for three batches."""

    def make(whole, model, size):
        x = [make_images(size, seed=t) for t in range(6)]
        for images in x[:3]:
            whole(images)
        whole.save(tmp_path / "state.safetensors")
        again = load(tmp_path / "state.safetensors", model)
        for images in x[3:]:
            assert torch.equal(whole(images), again(images))
        return again

    return make
