"""The passes over pixels, against the plainest way to write them."""

import math

import numpy as np
import pytest
import torch

from multipool.memory.pixels import _by_matmul, _dot, eight_bits, extent, moments, plain

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_numpy_sees_the_same_numbers(dtype):
    images = torch.rand(3, 2, 5, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    for layout in (images, images.to(memory_format=torch.channels_last), images[::2, :, 1:]):
        assert np.array_equal(plain(layout).astype(np.float64), layout.double().numpy())


@pytest.mark.parametrize("size", [1, 100, 8192, 20000])
def test_moments_are_exact_sums(size):
    values = np.random.default_rng(size).random((7, size), dtype=np.float32)
    sums, squares = moments(values)
    for row, total, square in zip(values.tolist(), sums, squares, strict=True):
        assert total == pytest.approx(math.fsum(row), rel=1e-14)
        assert square == pytest.approx(math.fsum(x * x for x in row), rel=1e-14)


def test_a_row_has_the_same_moments_alone_and_among_others():
    values = np.random.default_rng(0).random((200, 1024), dtype=np.float32)
    sums, squares = moments(values)
    for row in (0, 63, 64, 65, 199):
        alone = moments(values[row : row + 1])
        assert (alone[0][0], alone[1][0]) == (sums[row], squares[row])


def test_an_older_numpy_gives_the_same_dot_products():
    a = np.random.default_rng(0).random((5, 300))
    assert np.allclose(_by_matmul(a, a), _dot(a, a), rtol=1e-14)
    assert np.allclose(_by_matmul(a, np.ones(300)), _dot(a, np.ones(300)), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_half_to_even_at_any_length(dtype):
    values = np.random.default_rng(0).random(70007).astype(dtype)
    values[:3] = 0.5, 0.5 / 255, 1.5 / 255  # the first two are halfway
    expected = [round(float(x)) for x in values * dtype(255)]
    assert eight_bits(values.reshape(7, -1)).ravel().tolist() == expected
    assert eight_bits(values)[:2].tolist() == [128, 0]


def test_the_extent_tells_nan():
    values = np.array([[0.5, 0.25], [1.0, 0.75]], dtype=np.float32)
    assert extent(values).tolist() == [0.25, 1.0]
    values[1, 0] = np.nan
    assert np.isnan(extent(values)).all()
