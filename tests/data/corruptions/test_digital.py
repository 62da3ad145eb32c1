"""Digital corruptions against Pillow and the standard library, image by image."""

import colorsys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from multipool.data.corruptions import PARAMETER_SETS, corrupt

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
