"""Digital corruptions against Pillow and the standard library, image by image."""

import colorsys
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from multipool.data.corruptions import PARAMETER_SETS, corrupt
from multipool.data.corruptions.draws import Draws

LEVELS = [(p, s) for p in PARAMETER_SETS for s in (1, 3, 4, 5)]


def _near(ours, reference, limit):
    assert np.abs(ours.astype(float) - reference).mean() < limit


def _hsv(image, change):
    """Change hue, saturation, value of every pixel with the standard library."""
    out = np.empty(image.shape)
    for place in np.ndindex(image.shape[:2]):
        out[place] = colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*(image[place] / 255))))
    return np.uint8(np.clip(out, 0, 1) * 255 + 1e-9)


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
def test_brightness_raises_the_value(parameters, severity, photos):
    c = PARAMETER_SETS[parameters].brightness[severity - 1]
    reference = np.stack([_hsv(x, lambda h, s, v: (h, s, min(v + c, 1))) for x in photos[:6]])
    _near(corrupt(photos[:6], "brightness", severity, parameters=parameters), reference, 0.1)


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
def test_saturate_scales_the_saturation(parameters, severity, photos):
    c = PARAMETER_SETS[parameters].saturate[severity - 1]
    reference = np.stack(
        [_hsv(x, lambda h, s, v: (h, min(s * c.scale + c.shift, 1), v)) for x in photos[:6]]
    )
    _near(corrupt(photos[:6], "saturate", severity, parameters=parameters), reference, 0.15)


def test_black_turns_grey_and_grey_turns_reddish():
    black = np.zeros((1, 8, 8, 3), dtype=np.uint8)
    assert np.array_equal(np.unique(corrupt(black, "brightness", 5)), [76])  # 0.3 * 255 = 76.5
    grey = np.full((1, 8, 8, 3), 100, dtype=np.uint8)
    assert corrupt(grey, "saturate", 5)[0, 0, 0].tolist() == [100, 80, 80]


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
def test_contrast_pulls_channels_to_their_mean(parameters, severity, photos):
    c = PARAMETER_SETS[parameters].contrast[severity - 1]
    x = photos / 255
    mean = x.mean(axis=(1, 2), keepdims=True)
    reference = np.uint8(np.clip((x - mean) * c + mean, 0, 1) * 255)
    _near(corrupt(photos, "contrast", severity, parameters=parameters), reference, 0.1)


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
def test_jpeg_is_pillow_at_the_published_quality(parameters, severity, photos):
    quality = PARAMETER_SETS[parameters].jpeg_compression[severity - 1]
    reference = []
    for image in photos[:8]:
        Image.fromarray(image).save(file := BytesIO(), "JPEG", quality=quality)
        reference.append(np.asarray(Image.open(file)))
    ours = corrupt(photos[:8], "jpeg_compression", severity, parameters=parameters)
    assert np.array_equal(ours, reference)


@pytest.mark.parametrize(("parameters", "severity"), LEVELS)
@pytest.mark.parametrize("size", [(32, 32), (64, 64), (50, 37)])
def test_pixelate_is_pillow_twice_with_a_box(parameters, severity, size, draw):
    images = draw(4, 64)[:, : size[0], : size[1]]
    share = PARAMETER_SETS[parameters].pixelate[severity - 1]
    small = (int(size[1] * share), int(size[0] * share))
    reference = [
        np.asarray(
            Image.fromarray(i)
            .resize(small, Image.Resampling.BOX)
            .resize(size[::-1], Image.Resampling.BOX)
        )
        for i in images
    ]
    ours = corrupt(images, "pixelate", severity, parameters=parameters)
    _near(ours, np.stack(reference), 0.02)


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
