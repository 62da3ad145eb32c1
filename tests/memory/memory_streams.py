"""A stream of images, and whether two banks are in one state: shared by this folder's tests."""

import numpy as np
import torch


def same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        assert torch.equal(a[name], b[name]), name


def drifting(batches, size=64, side=6, seed=0):
    """8-bit images whose colours wander, with pseudo-labels and entropies."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(batches):
        colour = torch.rand(size, 3, 1, 1, generator=generator) * (0.6 + 0.4 * np.sin(step))
        images = torch.rand(size, 3, side, side, generator=generator) * 0.2 + colour * 0.8
        entropy = torch.rand(size, generator=generator) * 4
        labels = torch.randint(0, 100, (size,), generator=generator)
        yield (images * 255).round() / 255, entropy, labels
