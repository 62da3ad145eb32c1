"""A drifting stream, and copies of the tiny network that normalise by the batch's statistics."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # for literal.py


@pytest.fixture
def drift(make_images):
    """Return ten batches whose brightness drifts; the last one is shorter."""

    def make(steps: int = 10, size: int = 32):
        sizes = [size] * (steps - 1) + [max(1, size // 3)]
        return [
            (make_images(n, seed=100 + t) * (0.5 + 0.05 * t)).clamp(0, 1)
            for t, n in enumerate(sizes)
        ]

    return make


@pytest.fixture
def batch_copy():
    """Return a copy in train mode, batch statistics only, and its affine parameters."""

    def make(model):
        net = copy.deepcopy(model).requires_grad_(False).train()
        affine = []
        for layer in (net.bn1, net.bn2, net.bn3):
            layer.track_running_stats = False
            layer.running_mean = layer.running_var = None
            affine += [layer.weight.requires_grad_(), layer.bias.requires_grad_()]
        return net, affine

    return make


@pytest.fixture
def assert_follows():
    """Compare an adapter with a reference over a stream, prediction by prediction."""

    def check(adapter, reference, batches, affine):
        start = torch.cat([p.detach().clone() for p in affine])
        for x in batches:
            torch.testing.assert_close(adapter(x), reference(x), rtol=2e-4, atol=2e-4)
        now = torch.cat([p.detach() for p in affine])
        torch.testing.assert_close(adapter.method.student.affine, now, rtol=1e-3, atol=1e-4)
        assert (now - start).abs().max() > 1e-3, "nothing was learned"

    return check
