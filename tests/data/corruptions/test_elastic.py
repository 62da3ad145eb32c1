"""Elastic transform against scipy, with the same random numbers and without."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from multipool.data.corruptions import PARAMETER_SETS, corrupt
from multipool.data.corruptions.draws import Draws


def _elastic(image, c, jitter, noise):
    """One image; ``jitter`` (3, 2) and ``noise`` (2, H, W) lie in [-1, 1)."""
    height, width = image.shape[:2]
    x = image / 255
    centre, half = np.array([height // 2, width // 2]), min(height, width) // 3
    corners = centre + half * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = corners + jitter * c.affine
    # x, y of the source are linear in x, y of the result.
    back = np.linalg.solve(np.c_[moved, np.ones(3)], corners)  # (3, 2)
    swap = back[:2].T[::-1, ::-1]
    planes = [
        ndimage.affine_transform(p, swap, back[2, ::-1], order=1, mode="mirror")
        for p in x.transpose(2, 0, 1)
    ]
    if c.strength:
        push = [
            ndimage.gaussian_filter(n, c.sigma, mode="reflect", truncate=3) * c.strength
            for n in noise
        ]
        y, z = np.mgrid[:height, :width]
        places = [y + push[1], z + push[0]]
        planes = [ndimage.map_coordinates(p, places, order=1, mode="reflect") for p in planes]
    return np.uint8(np.clip(np.stack(planes, axis=-1), 0, 1) * 255 + 1e-9)


@pytest.mark.parametrize("parameters", PARAMETER_SETS)
@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("size", [(32, 32), (40, 28)])
def test_the_same_numbers_give_the_image_that_scipy_gives(parameters, severity, size, draw):
    images = draw(3, 40)[:, : size[0], : size[1]]
    draws = Draws(0, "elastic_transform", severity, torch.device("cpu"))
    jitter = draws.uniform("affine", 3, 3, 2).double().numpy() * 2 - 1
    noise = draws.uniform("push", 3, 2, *size).double().numpy() * 2 - 1
    level = PARAMETER_SETS[parameters].elastic_transform[severity - 1]
    reference = [_elastic(*args) for args in zip(images, [level] * 3, jitter, noise, strict=True)]
    ours = corrupt(images, "elastic_transform", severity, parameters=parameters)
    assert np.abs(ours.astype(float) - np.stack(reference)).mean() < 0.3


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_elastic_transform_has_the_published_mean_and_spread(severity, photos, same_change):
    level = PARAMETER_SETS["cifar-c"].elastic_transform[severity - 1]
    rng = np.random.default_rng(severity)
    reference = [
        _elastic(x, level, rng.uniform(-1, 1, (3, 2)), rng.uniform(-1, 1, (2, 32, 32)))
        for x in photos
    ]
    ours = corrupt(photos, "elastic_transform", severity)
    same_change(photos, ours, np.stack(reference))
