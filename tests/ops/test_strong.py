"""The strong view: each image its own colours, grey, blur and flip."""

import numpy as np
import torch

from multipool.ops.strong import blurred, flipped, strong_view


def test_a_blur_is_that_of_scipy_image_by_image(make_images):
    from scipy.ndimage import gaussian_filter

    images = make_images(3, side=16)
    sigma = np.array([0.7, 2.0, 1e-3])
    found = blurred(images, sigma)
    for image, blur, s in zip(images, found, sigma, strict=True):
        for channel, got in zip(image.numpy(), blur.numpy(), strict=True):
            expected = gaussian_filter(channel, s, mode="nearest", radius=6)
            np.testing.assert_allclose(got, expected, atol=1e-5)


def test_a_flip_mirrors_about_half_of_the_images(make_images):
    images = make_images(400)
    found = flipped(images, np.random.default_rng(0))
    same = (found == images).flatten(1).all(1)
    mirrored = (found == images.flip(-1)).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert 160 < int(mirrored.sum()) < 240


def test_the_shares_of_grey_and_of_untouched_images_are_those_of_the_recipe(make_images):
    images = make_images(2000)
    found = strong_view(images, np.random.default_rng(1))
    assert found.shape == images.shape
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-6
    grey = (found - found.mean(1, keepdim=True)).abs().flatten(1).amax(1) < 1e-5
    assert 0.16 < float(grey.float().mean()) < 0.24
    unflipped = torch.minimum(
        (found - images).abs().flatten(1).amax(1),
        (found - images.flip(-1)).abs().flatten(1).amax(1),
    )
    # Neither jittered, nor grey, nor blurred: 0.2 * 0.8 * 0.5.
    assert 0.06 < float((unflipped < 1e-5).float().mean()) < 0.10


def test_the_same_draws_give_the_same_view(make_images):
    images = make_images(8)
    one, other = (strong_view(images, np.random.default_rng(3)) for _ in range(2))
    assert torch.equal(one, other)


def test_images_of_one_channel_have_a_view(make_images):
    found = strong_view(make_images(5, channels=1), np.random.default_rng(0))
    assert found.shape == (5, 1, 8, 8)
    assert found.isfinite().all()
