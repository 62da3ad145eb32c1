"""Blurs against scipy and against loops over pixels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from multipool.data.corruptions import PARAMETER_SETS, corrupt
from multipool.data.corruptions.blur import copied_from, smear
from multipool.data.corruptions.parameters import Motion

LEVELS = [(p, s) for p in PARAMETER_SETS for s in range(1, 6)]


def _cut(x):
    return np.uint8(np.clip(x, 0, 1) * 255 + 1e-9)


def _soften(x, sigma):
    return ndimage.gaussian_filter(x, (sigma, sigma, 0), mode="nearest", truncate=4)


def _near(ours, reference, limit=0.1):
    assert np.abs(ours.astype(float) - np.stack(reference)).mean() < limit


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
def test_gaussian_blur_is_scipys(parameters, severity, photos):
    sigma = PARAMETER_SETS[parameters].gaussian_blur[severity - 1]
    reference = [_cut(_soften(x / 255, sigma)) for x in photos[:8]]
    _near(corrupt(photos[:8], "gaussian_blur", severity, parameters=parameters), reference)


def _defocused(x, level):
    reach = 8 if level.radius <= 8 else int(level.radius)
    y, z = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disk = np.where(np.hypot(y, z) <= level.radius + 1e-9, 1.0, 0.0)
    taps = np.arange(-1, 2) if level.radius <= 8 else np.arange(-2, 3)
    soft = np.exp(-(taps**2) / (2 * level.soften**2))
    disk = ndimage.correlate(
        disk / disk.sum(), np.outer(soft, soft) / soft.sum() ** 2, mode="mirror"
    )
    return _cut(
        np.stack([ndimage.correlate(c, disk, mode="mirror") for c in x.transpose(2, 0, 1)], -1)
    )


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
def test_defocus_blur_is_a_softened_disk(parameters, severity, photos):
    level = PARAMETER_SETS[parameters].defocus_blur[severity - 1]
    reference = [_defocused(x / 255, level) for x in photos[:8]]
    _near(corrupt(photos[:8], "defocus_blur", severity, parameters=parameters), reference, 0.2)


def _zoomed(x, factor):
    height = len(x)
    crop = math.ceil(height / factor)
    top = (height - crop) // 2
    large = ndimage.zoom(x[top : top + crop, top : top + crop], (factor, factor, 1), order=1)
    trim = (len(large) - height) // 2
    return large[trim : trim + height, trim : trim + height]


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
def test_zoom_blur_averages_scipys_zooms(parameters, severity, photos):
    level = PARAMETER_SETS[parameters].zoom_blur[severity - 1]
    factors = np.arange(1, level.stop, level.step)
    reference = []
    for x in photos[:4] / 255:
        total = x + sum(_zoomed(x, f) for f in factors)
        reference.append(_cut(total / (len(factors) + 1)))
    _near(corrupt(photos[:4], "zoom_blur", severity, parameters=parameters), reference)


def _smeared(image, motion, degrees):
    """ImageMagick's rule, pixel by pixel."""
    width = 2 * math.ceil(motion.radius) + 1
    kernel = [math.exp(-(i**2) / (2 * motion.sigma**2)) for i in range(width)]
    height, wide = image.shape[:2]
    out = np.zeros(image.shape)
    for y in range(height):
        for x in range(wide):
            for i, k in enumerate(kernel):
                right = math.ceil(i * math.cos(math.radians(degrees)) - 0.5)
                down = math.ceil(i * math.sin(math.radians(degrees)) - 0.5)
                row, column = min(max(y + down, 0), height - 1), min(max(x + right, 0), wide - 1)
                out[y, x] += k / sum(kernel) * image[row, column]
    return out


@settings(max_examples=15, deadline=None)
@given(st.floats(-180, 180), st.sampled_from([(6, 1.0), (9, 2.5), (14, 12.0)]), st.integers(1, 3))
def test_a_smear_follows_its_definition(degrees, motion, channels):
    images = np.random.default_rng(0).integers(0, 256, (2, 9, 11, channels)).astype(np.float32)
    angles = torch.tensor([degrees, -degrees], dtype=torch.float64)
    ours = smear(torch.from_numpy(images), Motion(*motion), angles).numpy()
    for out, image, angle in zip(ours, images, angles.tolist(), strict=True):
        assert np.abs(out - _smeared(image, Motion(*motion), angle)).max() < 0.501  # rounded


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_motion_blur_has_the_published_mean_and_spread(severity, photos, same_change):
    level = PARAMETER_SETS["cifar-c"].motion_blur[severity - 1]
    angles = np.random.default_rng(1).uniform(-45, 45, len(photos))
    steps = np.arange(2 * level.radius + 1)
    kernel = np.exp(-(steps**2) / (2 * level.sigma**2))
    kernel /= kernel.sum()
    places = np.arange(32)
    reference = []
    for x, angle in zip(photos, np.deg2rad(angles), strict=True):
        total = np.zeros(x.shape)
        for i, k in zip(steps, kernel, strict=True):
            rows = (places + int(np.ceil(i * np.sin(angle) - 0.5))).clip(0, 31)
            columns = (places + int(np.ceil(i * np.cos(angle) - 0.5))).clip(0, 31)
            total += k * x[rows][:, columns]
        reference.append(total.round())
    same_change(photos, corrupt(photos, "motion_blur", severity), np.stack(reference))


def _copied(size, offsets, reach):
    """The published double loop; assigning to a pixel from a view copies."""
    x = np.arange(size[0] * size[1]).reshape(*size, 1)
    for h in range(size[0] - reach, reach, -1):
        for w in range(size[1] - reach, reach, -1):
            dy, dx = offsets[:, h, w]
            x[h, w], x[h + dy, w + dx] = x[h + dy, w + dx], x[h, w]
    return x.ravel()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(9, 20), st.integers(9, 20), st.integers(0, 1000))
def test_glass_follows_the_published_loop_over_pixels(reach, height, width, seed):
    offsets = np.random.default_rng(seed).integers(-reach, reach, (3, 2, height, width))
    ours = copied_from(torch.from_numpy(offsets), reach).numpy()
    for got, offset in zip(ours, offsets, strict=True):
        assert np.array_equal(got, _copied((height, width), offset, reach))


@pytest.mark.parametrize(
    ("parameters", "severity"),
    [("cifar-c", 1), ("cifar-c", 5), ("tiny-imagenet-c", 5), ("imagenet-c", 5)],
)
def test_glass_blur_has_the_published_mean_and_spread(parameters, severity, photos, same_change):
    level = PARAMETER_SETS[parameters].glass_blur[severity - 1]
    rng = np.random.default_rng(2)
    reference = []
    for image in photos[:40]:
        x = _cut(_soften(image / 255, level.sigma)).reshape(-1, 3)
        for _ in range(level.rounds):
            offsets = rng.integers(-level.reach, level.reach, (2, 32, 32))
            x = x[_copied((32, 32), offsets, level.reach)]
        reference.append(_cut(_soften(x.reshape(32, 32, 3) / 255, level.sigma)))
    ours = corrupt(photos[:40], "glass_blur", severity, parameters=parameters)
    same_change(photos[:40], ours, np.stack(reference))
