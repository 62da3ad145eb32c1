"""Snow and fog against one-image references."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from multipool.data.corruptions import PARAMETER_SETS, corrupt
from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.weather import plasma


def _cloud(size, decay, uniform):
    """Midpoint displacement point by point; ``uniform(level, y, x, kind)`` lies in [-1, 1)."""
    cloud, step, wibble = np.zeros((size, size)), size, 100.0
    while step >= 2:
        half, cells = step // 2, range(size // step)
        points = [(y, x) for y in cells for x in cells]
        for y, x in points:
            four = [
                cloud[(y + a) * step % size, (x + b) * step % size] for a, b in np.ndindex(2, 2)
            ]
            jitter = wibble**2 * uniform(step, y, x, 0)
            cloud[y * step + half, x * step + half] = sum(four) / 4 + jitter
        for kind, (top, left) in enumerate(((0, half), (half, 0)), start=1):
            values = {}
            for y, x in points:
                row, column = y * step + top, x * step + left
                four = [cloud[(row + a) % size, (column + b) % size]
                        for a, b in ((half, 0), (-half, 0), (0, half), (0, -half))]  # fmt: skip
                values[row, column] = sum(four) / 4 + wibble**2 * uniform(step, y, x, kind)
            for place, value in values.items():
                cloud[place] = value
        step, wibble = half, wibble / decay
    cloud -= cloud.min()
    return cloud / cloud.max()


@pytest.mark.parametrize("decay", [1.4, 3.0])
def test_a_cloud_follows_the_scheme_point_by_point(decay):
    ours = plasma(Draws(1, "fog", 1, torch.device("cpu")), 1, 16, decay)[0].numpy()
    again = Draws(1, "fog", 1, torch.device("cpu"))
    drawn = {s: again.uniform(f"cloud{s}", 1, 3, 16 // s, 16 // s) * 2 - 1 for s in (16, 8, 4, 2)}
    reference = _cloud(16, decay, lambda s, y, x, kind: float(drawn[s][0, kind, y, x]))
    np.testing.assert_allclose(ours, reference, atol=1e-5)


@pytest.mark.parametrize("severity", [1, 5])
def test_fog_has_the_published_mean_and_spread(severity, photos, same_change):
    level = PARAMETER_SETS["cifar-c"].fog[severity - 1]
    rng = np.random.default_rng(severity)
    reference = []
    for x in photos[:24] / 255:
        cloud = _cloud(32, level.decay, lambda *_: rng.uniform(-1, 1))
        top = x.max()
        foggy = (x + level.amount * cloud[..., None]) * top / (top + level.amount)
        reference.append(np.uint8(foggy.clip(0, 1) * 255))
    same_change(photos[:24], corrupt(photos[:24], "fog", severity), np.stack(reference))


def _snowed(image, c, rng):
    x = image / 255
    crop = math.ceil(32 / c.zoom)
    flakes = rng.normal(c.mean, c.std, (crop, crop))
    flakes = ndimage.zoom(flakes, c.zoom, order=1)
    trim = (len(flakes) - 32) // 2
    flakes = flakes[trim : trim + 32, trim : trim + 32]
    flakes = np.uint8(np.clip(np.where(flakes < c.threshold, 0, flakes), 0, 1) * 255)
    angle = np.deg2rad(rng.uniform(-135, -45))
    steps = np.arange(2 * c.streak.radius + 1)
    kernel = np.exp(-(steps**2) / (2 * c.streak.sigma**2))
    smear = np.zeros((32, 32))
    for i, k in zip(steps, kernel / kernel.sum(), strict=True):
        rows = (np.arange(32) + int(np.ceil(i * np.sin(angle) - 0.5))).clip(0, 31)
        columns = (np.arange(32) + int(np.ceil(i * np.cos(angle) - 0.5))).clip(0, 31)
        smear += k * flakes[rows][:, columns]
    layer = smear.round()[..., None] / 255
    grey = (x @ [0.299, 0.587, 0.114])[..., None]
    x = c.keep * x + (1 - c.keep) * np.maximum(x, grey * 1.5 + 0.5)
    return np.uint8(np.clip(x + layer + layer[::-1, ::-1], 0, 1) * 255)


@pytest.mark.parametrize("parameters", PARAMETER_SETS)
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_snow_has_the_published_mean_and_spread(parameters, severity, photos, same_change):
    level = PARAMETER_SETS[parameters].snow[severity - 1]
    rng = np.random.default_rng(severity)
    reference = np.stack([_snowed(x, level, rng) for x in photos])
    same_change(photos, corrupt(photos, "snow", severity, parameters=parameters), reference)


def test_fog_and_snow_of_a_black_image_are_finite():
    black = np.zeros((2, 32, 32, 3), dtype=np.uint8)
    assert not corrupt(black, "fog").any()  # nothing may be brighter than the brightest pixel
    assert corrupt(black, "snow").any()
