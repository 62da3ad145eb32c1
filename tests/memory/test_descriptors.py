import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.memory.descriptors import DESCRIPTORS, histogram, on_grid, pixel, spatial_mean


@settings(deadline=None, max_examples=40)
@given(
    size=st.integers(1, 40),
    channels=st.integers(1, 4),
    side=st.integers(1, 70),
    seed=st.integers(0, 999),
)
def test_pixel_is_mean_and_biased_variance_of_each_channel(size, channels, side, seed):
    images = torch.rand(size, channels, side, side, generator=torch.Generator().manual_seed(seed))
    found = pixel(images)
    exact = images.double().flatten(2)
    assert found.shape == (size, 2 * channels)
    assert torch.allclose(found[:, 0::2], exact.mean(2), atol=1e-14, rtol=0)
    assert torch.allclose(found[:, 1::2], exact.var(2, correction=0), atol=1e-14, rtol=0)


@settings(deadline=None, max_examples=40)
@given(name=st.sampled_from(["pixel", "spatial_mean", "histogram"]), seed=st.integers(0, 999))
def test_an_image_alone_has_the_descriptor_it_has_in_a_batch(name, seed):
    images = torch.rand(23, 3, 9, 9, generator=torch.Generator().manual_seed(seed))
    images[5:9] = images[0].mean()
    together = on_grid(DESCRIPTORS[name](images).numpy())
    alone = [on_grid(DESCRIPTORS[name](image[None]).numpy()) for image in images]
    assert np.array_equal(together, np.concatenate(alone))


def test_the_input_stays_as_it_was():
    images = torch.rand(4, 3, 8, 8, dtype=torch.float64)
    before = images.clone()
    for describe in (pixel, spatial_mean, histogram):
        describe(images)
        assert torch.equal(images, before)


def test_a_constant_image_has_no_variance():
    assert on_grid(pixel(torch.full((1, 1, 31, 33), 0.3)).numpy())[0, 1] == 0


def test_spatial_mean_of_a_four_by_four_image_is_the_image():
    image = torch.rand(1, 2, 4, 4)
    assert torch.allclose(spatial_mean(image), image.double().flatten(1))


def test_every_pixel_is_in_one_of_eight_bins():
    image = torch.linspace(0, 1, 9).view(1, 1, 1, 9)
    expected = torch.tensor([1, 1, 1, 1, 1, 1, 1, 2], dtype=torch.float64) / 9
    assert torch.allclose(histogram(image)[0], expected)


@pytest.mark.parametrize("name", ["pixel", "spatial_mean", "histogram"])
def test_channels_last_images_are_described_alike(name):
    images = torch.rand(5, 3, 8, 8)
    last = images.to(memory_format=torch.channels_last)
    both = [on_grid(DESCRIPTORS[name](batch).numpy()) for batch in (images, last)]
    assert np.array_equal(*both)
