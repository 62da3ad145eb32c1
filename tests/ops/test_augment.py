"""The view equals the published padded pipeline, written out step by step."""

import colorsys
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.nn import functional as F

from multipool.core import numpy_generator, torch_generator
from multipool.ops import View, colour


def published(images, drawn, noise, reflect=False):
    """Pad to twice the side, warp with zero fill, blur with reflection, crop, flip, add noise."""
    x = images.clamp(0, 1)
    n = x.shape[-1]
    steps = [colour.brightness, colour.contrast, colour.saturation, colour.hue, colour.gamma]
    for i in drawn.order:
        x = steps[i](x, float(drawn.colours[i][0]))
    x = F.pad(x, [n // 2] * 4, mode="reflect" if reflect else "replicate")
    turn, scale = math.radians(drawn.angle[0]), float(drawn.scale[0])
    tx, ty = drawn.shift[0]
    side = x.shape[-1]
    axis = torch.arange(side, dtype=x.dtype) - (side - 1) / 2
    ys, xs = torch.meshgrid(axis - ty, axis - tx, indexing="ij")
    in_x = (math.cos(turn) * xs + math.sin(turn) * ys) / scale
    in_y = (-math.sin(turn) * xs + math.cos(turn) * ys) / scale
    grid = torch.stack([in_x, in_y], -1) / (side / 2)
    x = F.grid_sample(x, grid.expand(len(x), -1, -1, -1), align_corners=False)
    if not reflect:
        taps = torch.exp(-0.5 * (torch.arange(-2.0, 3, dtype=x.dtype) / float(drawn.sigma[0])) ** 2)
        taps = taps / taps.sum()
        kernel = (taps[:, None] * taps).expand(x.shape[1], 1, 5, 5)
        x = F.conv2d(F.pad(x, [2] * 4, mode="reflect"), kernel, groups=x.shape[1])
    low = n // 2
    x = x[..., low : low + n, low : low + n]
    if drawn.flip[0]:
        x = x.flip(-1)
    if not reflect:
        x = x + 0.005 * noise
    return x.clamp(0, 1)


@pytest.mark.parametrize("reflect", [False, True])
@pytest.mark.parametrize("side", [32, 64])
def test_a_view_equals_the_published_pipeline(side, reflect):
    images = torch.rand(4, 3, side, side, dtype=torch.float64, generator=torch_generator(1))
    noise = torch.randn(images.shape, dtype=torch.float64, generator=torch_generator(2))
    view = View(reflect=reflect)
    for seed in range(6):
        drawn = view.draw(4, side, numpy_generator(seed))
        expected = published(images, drawn, noise, reflect)
        torch.testing.assert_close(view.apply(images, drawn, noise), expected, rtol=0, atol=1e-6)


def test_a_view_at_the_extremes_never_shows_the_fill():
    images = torch.rand(2, 3, 32, 32, dtype=torch.float64, generator=torch_generator(1))
    base = View().draw(2, 32, numpy_generator(0))
    for angle in (-15.0, 15.0):
        for shift in ([4.0, 4.0], [-4.0, 4.0]):
            drawn = type(base)(
                base.order, base.colours, np.array([angle]), np.array([0.9]),
                np.array([shift]), np.array([0.5]), np.array([True]),
            )  # fmt: skip
            expected = published(images, drawn, torch.zeros_like(images))
            got = View().apply(images, drawn, None)
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)


levels = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)


@given(st.lists(st.tuples(levels, levels, levels), min_size=1, max_size=9), st.floats(-1.3, 1.3))
@example([(1.0, 0.0, 0.0), (0.0, 1.0, 1.0), (0.5, 0.5, 0.2)], 1 / 6)
@example([(0.3, 0.1, 0.2)], 0.5)
def test_hue_agrees_with_the_standard_library(colours, turns):
    images = torch.tensor(colours, dtype=torch.float64).T.reshape(1, 3, 1, -1)
    expected = []
    for red, green, blue in colours:
        h, s, v = colorsys.rgb_to_hsv(red, green, blue)
        expected.append(colorsys.hsv_to_rgb((h + turns) % 1, s, v))
    each = torch.full((1, 1, 1, 1), turns, dtype=torch.float64)
    for factor in (turns, each):
        got = colour.hue(images, factor)[0, :, 0].T
        wanted = torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-9)


def test_other_colours_are_what_they_say():
    images = torch.rand(3, 3, 5, 5, dtype=torch.float64, generator=torch_generator(0))
    luma = torch.tensor([0.2989, 0.587, 0.114], dtype=torch.float64)
    grey = torch.einsum("bchw,c->bhw", images, luma).unsqueeze(1)
    mean = grey.flatten(1).mean(dim=1).view(-1, 1, 1, 1)
    for factor in (0.6, 1.3):
        rest = 1 - factor
        for got, expected in (
            (colour.brightness(images, factor), factor * images),
            (colour.contrast(images, factor), factor * images + rest * mean),
            (colour.saturation(images, factor), factor * images + rest * grey),
            (colour.gamma(images, factor), images**factor),
        ):
            torch.testing.assert_close(got, expected.clamp(0, 1))


@pytest.mark.parametrize("sigma", [0.001, 0.1, 0.16, 0.2, 0.31, 0.33, 0.5])
def test_taps_of_the_blur_that_are_left_out_change_no_float(sigma):
    images = torch.rand(3, 3, 16, 16, dtype=torch.float64, generator=torch_generator(1))
    base = View().draw(3, 16, numpy_generator(0))
    drawn = replace(base, sigma=np.array([sigma]))
    expected = published(images, drawn, torch.zeros_like(images))
    torch.testing.assert_close(View().apply(images, drawn, None), expected, rtol=0, atol=1e-8)


def test_grey_images_keep_their_hue_and_single_channels_pass():
    grey = torch.full((1, 3, 4, 4), 0.4)
    torch.testing.assert_close(colour.hue(grey, 0.3), grey)
    single = torch.rand(2, 1, 8, 8)
    out = View()(single, numpy_generator(0), torch_generator(0))
    assert out.shape == single.shape
    assert out.isfinite().all()


def test_parameters_are_shared_by_the_batch_unless_asked_otherwise():
    image = torch.rand(1, 3, 16, 16).expand(5, -1, -1, -1)
    silent = View(noise=0.0)
    out = silent(image, numpy_generator(3), torch_generator(0))
    torch.testing.assert_close(out, out[:1].expand_as(out))
    each = View(noise=0.0, per_sample=True)(image, numpy_generator(3), torch_generator(0))
    assert (each[1:] - each[:1]).abs().amax(dim=(1, 2, 3)).min() > 0.01


def test_per_sample_draws_equal_shared_draws_image_by_image():
    images = torch.rand(3, 3, 16, 16, dtype=torch.float64)
    view = View(per_sample=True)
    drawn = view.draw(3, 16, numpy_generator(7))
    together = view.apply(images, drawn, None)
    for i in range(3):
        one = type(drawn)(
            drawn.order, drawn.colours[:, i : i + 1], drawn.angle[i : i + 1],
            drawn.scale[i : i + 1], drawn.shift[i : i + 1], drawn.sigma[i : i + 1],
            drawn.flip[i : i + 1],
        )  # fmt: skip
        torch.testing.assert_close(together[i : i + 1], view.apply(images[i : i + 1], one, None))


def test_draws_stay_in_the_published_ranges():
    drawn = View(per_sample=True).draw(500, 32, numpy_generator(0))
    for values, (low, high) in zip(
        drawn.colours, [(0.6, 1.4), (0.7, 1.3), (0.5, 1.5), (-0.06, 0.06), (0.7, 1.3)], strict=True
    ):
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high
    assert set(np.unique(drawn.shift)) <= set(range(-4, 5))
    assert np.abs(drawn.angle).max() <= 15
    assert 0.4 < drawn.flip.mean() < 0.6
