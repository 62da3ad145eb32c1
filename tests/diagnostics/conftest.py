"""Streams whose modes are known, because they were made."""

from __future__ import annotations

import numpy as np
import pytest
import torch


def _modes(count, samples, seed=0, side=8, jitter=0.0):
    """Return images of ``count`` colours far apart, in random order, and their modes."""
    rng = np.random.default_rng(seed)
    corners = np.array([[r, g, b] for r in (0.2, 0.8) for g in (0.2, 0.8) for b in (0.2, 0.8)])
    mode = rng.permutation(np.arange(samples) % count)
    colour = corners[mode] + rng.normal(0, jitter, (samples, 3))  # (S, 3)
    grain = rng.normal(0, 0.05, (samples, 3, side, side))
    images = torch.from_numpy((colour[:, :, None, None] + grain).clip(0, 1)).float()
    return images, torch.from_numpy(mode)


@pytest.fixture(scope="session")
def modes():
    return _modes
