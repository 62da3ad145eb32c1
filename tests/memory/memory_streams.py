"""Streams of images, and whether two banks are in one state: shared by this folder's tests."""

import numpy as np
import torch
from hypothesis import strategies as st


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


@st.composite
def streams(draw, longest=200):
    """Batches of duplicated, constant and random images; entropies with ties or far too large."""
    channels, side = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 5]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    batches = []
    for size in draw(st.lists(st.integers(1, longest), min_size=1, max_size=4)):
        images = torch.rand(size, channels, side, side, generator=generator)
        kinds = ["random", "levels", "constant", "constant", "duplicates", "one colour"]
        kind = draw(st.sampled_from(kinds))
        if kind == "levels":
            images = (images * 255).round() / 255
        if kind == "constant":
            images = (images[:, :1, :1, :1] * 4).round().expand_as(images) / 4
        if kind == "duplicates":
            images = images[torch.randint(0, size, (size,), generator=generator) // 3]
        if kind == "one colour":
            images = images[:1, :, :1, :1].expand_as(images)
        doubt = torch.rand(size, generator=generator).double()
        if draw(st.booleans()):
            doubt = (doubt * 3).round() / 3
        doubt *= draw(st.sampled_from([1.0, 1.0, -1.0, 1e12, 1e300, 0.0]))
        labels = torch.randint(-1, 6, (size,), generator=generator)
        if draw(st.booleans()):  # a run of one class
            labels[torch.rand(size, generator=generator) < 0.8] = draw(st.integers(-1, 5))
        batches.append((images.contiguous(), doubt, labels))
    return batches
