"""Spatter against a one-image reference: edges by loops, distances by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from multipool.data.corruptions import PARAMETER_SETS, corrupt
from multipool.data.corruptions.spatter import _equalised, canny_edges


def _edges(grey, low=50, high=150):
    """Canny's detector with loops over pixels, and a stack for what touches a strong edge."""
    x = ndimage.sobel(grey.astype(int), axis=1, mode="nearest")
    y = ndimage.sobel(grey.astype(int), axis=0, mode="nearest")
    size = np.pad(np.abs(x) + np.abs(y), 1)
    height, width = grey.shape
    ridge = np.zeros((height, width), dtype=bool)
    for i, j in np.ndindex(height, width):
        angle = np.degrees(np.arctan2(abs(y[i, j]), abs(x[i, j])))
        here = size[i + 1, j + 1]
        if here <= low:
            continue
        if angle < 22.5:
            ridge[i, j] = here > size[i + 1, j] and here >= size[i + 1, j + 2]
        elif angle > 67.5:
            ridge[i, j] = here > size[i, j + 1] and here >= size[i + 2, j + 1]
        elif (x[i, j] < 0) == (y[i, j] < 0):
            ridge[i, j] = here > size[i, j] and here > size[i + 2, j + 2]
        else:
            ridge[i, j] = here > size[i, j + 2] and here > size[i + 2, j]
    found = np.zeros((height, width), dtype=bool)
    stack = [tuple(p) for p in np.argwhere(ridge & (size[1:-1, 1:-1] > high))]
    while stack:
        i, j = stack.pop()
        if 0 <= i < height and 0 <= j < width and ridge[i, j] and not found[i, j]:
            found[i, j] = True
            stack += [(i + a, j + b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    return found


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.5, 2.0))
def test_edges_are_those_of_the_loops(seed, sigma):
    noise = np.random.default_rng(seed).normal(0.65, 0.3, (3, 14, 17))
    soft = ndimage.gaussian_filter(noise, (0, sigma, sigma))
    grey = np.uint8(np.where(soft < 0.69, 0, soft).clip(0, 1) * 255)
    for got, image in zip(canny_edges(grey, 50, 150), grey, strict=True):
        assert np.array_equal(got, _edges(image))


def test_a_flat_image_has_no_edges_and_does_not_borrow_its_neighbours():
    grey = np.zeros((3, 12, 12), dtype=np.uint8)
    grey[1, 4:8, 4:8] = 200
    found = canny_edges(grey, 50, 150)
    assert found[1].any()
    assert not found[[0, 2]].any()


def test_equalised_levels_are_shares_of_darker_or_equal_pixels():
    levels = np.array([[[0, 0, 3], [3, 7, 9]]], dtype=np.uint8)
    # Of the 4 pixels above the first level: 2, 3 and 4 have been passed.
    assert _equalised(levels).tolist() == [[[0, 0, 128], [128, 191, 255]]]
    assert _equalised(np.full((1, 4, 4), 20, np.uint8)).tolist() == [[[20] * 4] * 4]


def _wet(image, c, rng):
    x = image / 255
    layer = ndimage.gaussian_filter(rng.normal(c.mean, c.std, (32, 32)), c.sigma, mode="nearest")
    layer[layer < c.threshold] = 0
    if c.mud:
        mask = ndimage.gaussian_filter((layer > c.threshold) * 1.0, c.amount, mode="nearest")
        mask = np.where(mask < 0.8, 0, mask)[..., None]
        return np.uint8(np.clip(x * (1 - mask) + mask * np.array([63, 42, 20]) / 255, 0, 1) * 255)
    grey = np.uint8(layer.clip(0, 1) * 255)
    edges = np.argwhere(_edges(grey))
    places = np.argwhere(np.ones((32, 32)))
    distance = np.full(1024, 20.0)
    if len(edges):
        distance = np.sqrt(((places[:, None] - edges) ** 2).sum(-1).min(1)).clip(max=20)
    box = np.full((3, 3), 1 / 9)
    near = np.uint8(ndimage.correlate(distance.reshape(32, 32), box, mode="mirror") + 1e-6)
    order = np.array([(near <= v).sum() - (near == near.min()).sum() for v in range(256)])
    if order[-1] > 0:
        near = np.uint8(np.rint(order.clip(0) * 255 / order[-1]))[near]
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    lit = ndimage.correlate(near.astype(float), emboss, mode="mirror").clip(0, 255)
    mask = grey * np.rint(ndimage.correlate(lit, box, mode="mirror"))
    mask = mask / max(mask.max(), 1e-6) * c.amount
    return np.uint8(np.clip(x + mask[..., None] * np.array([175, 238, 238]) / 255, 0, 1) * 255)


@pytest.mark.parametrize("parameters", ["cifar-c", "tiny-imagenet-c"])
@pytest.mark.parametrize("severity", range(1, 6))
def test_spatter_has_the_published_mean_and_spread(parameters, severity, photos, same_change):
    level = PARAMETER_SETS[parameters].spatter[severity - 1]
    rng = np.random.default_rng(severity)
    reference = np.stack([_wet(x, level, rng) for x in photos[:48]])
    ours = corrupt(photos[:48], "spatter", severity, parameters=parameters)
    same_change(photos[:48], ours, reference)
