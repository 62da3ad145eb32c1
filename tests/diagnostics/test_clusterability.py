import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.data import Stream, StreamConfig, load
from multipool.diagnostics import clusterability


@pytest.mark.parametrize("descriptor", ["pixel", "spatial_mean"])
@pytest.mark.parametrize(("count", "slack"), [(1, 0), (3, 0), (8, 1)])
def test_known_modes_are_counted(modes, descriptor, count, slack):
    images, _ = modes(count, 512)
    found = clusterability(images, descriptor, max_components=10, max_windows=2)
    assert all(abs(best - count) <= slack for best in found.best)
    assert found.window == 256


@pytest.mark.parametrize("count", [1, 3])
def test_full_covariances_count_correlated_modes_once(count):
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 4))  # strongly correlated, the same in every mode
    points = rng.normal(size=(300, 4)) @ mix + 12 * (np.arange(300) % count)[:, None]
    full = clusterability(points, covariance="full", window=300, max_components=5)
    assert full.best == (count,)


@pytest.mark.parametrize("covariance", ["diag", "full"])
@pytest.mark.parametrize(("count", "slack"), [(1, 0), (3, 0), (8, 1)])
def test_modes_of_some_width_are_counted(modes, covariance, count, slack):
    images, _ = modes(count, 256, jitter=0.03)
    found = clusterability(images, covariance=covariance, max_components=10)
    assert abs(found.best[0] - count) <= slack


def test_modes_that_come_one_after_another_are_counted_by_window(modes):
    images, mode = modes(8, 800)
    ordered = images[mode.argsort(stable=True)]
    found = clusterability(ordered, window=100, stride=50, max_components=4)
    assert set(found.best[::2]) == {1}  # windows 0, 100, ... hold one mode each
    assert set(found.best[1::2]) == {2}
    assert found.mean == pytest.approx(sum(found.best) / len(found.best))


def test_bic_of_one_gaussian_is_the_closed_form():
    points = np.random.default_rng(0).normal(size=(50, 2))
    found = clusterability(points, window=50, max_components=1, floor=1e-12)
    # Standardised columns, diagonal: -2 ln L = N D (ln 2 pi + 1); 2 means and 2 variances.
    expected = 50 * 2 * (math.log(2 * math.pi) + 1) + 4 * math.log(50)
    assert found.bic[0][0] == pytest.approx(expected, rel=1e-9)


def test_the_same_seed_gives_the_same_numbers(modes):
    images, _ = modes(3, 300)
    first, second = (clusterability(images, max_components=5, seed=4) for _ in range(2))
    assert first == second


def test_a_stream_of_the_package_is_read_by_windows():
    dataset = load("shapes-c", domains=("contrast", "fog"))
    stream = Stream(dataset, StreamConfig(limit=120, batch_size=16))
    by_window = clusterability(stream, window=50, max_components=3)
    at_once = clusterability(list(stream), window=50, max_components=3)
    assert by_window == at_once
    assert len(by_window.starts) == 3


def test_scale_and_shift_of_a_column_do_not_matter(modes):
    from multipool.diagnostics import describe

    images, _ = modes(3, 200)
    vectors = describe(images)
    moved = vectors * torch.tensor([1e4, 1e-4, 1, 1, 1, 1]) + 7
    assert clusterability(moved, max_components=4).best == clusterability(vectors).best


@pytest.mark.parametrize("descriptor", ["pixel", "spatial_mean", "histogram"])
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_constant_images_are_one_mode(descriptor, covariance):
    found = clusterability(torch.full((40, 3, 8, 8), 0.5), descriptor, covariance=covariance)
    assert found.best == (1,)
    assert all(math.isfinite(value) for value in found.bic[0])


@settings(max_examples=15)
@given(st.integers(1, 7), st.integers(1, 3), st.booleans())
def test_few_samples_give_a_finite_answer(count, distinct, full):
    rng = np.random.default_rng(count)
    points = rng.normal(size=(distinct, 3))[np.arange(count) % distinct]
    found = clusterability(points, covariance="full" if full else "diag")
    assert 1 <= found.mean <= min(count, distinct)
    assert all(math.isfinite(value) for row in found.bic for value in row)
    assert found.std == 0.0


def test_wrong_input_is_one_sentence(modes):
    images, _ = modes(1, 4)
    with pytest.raises(ValueError, match="unknown descriptor 'pixels'; did you mean 'pixel'"):
        clusterability(images, "pixels")
    with pytest.raises(ValueError, match="pass them as vectors"):
        clusterability(images, "feature")
    with pytest.raises(ValueError, match="window must be a whole number of at least 2, got 1"):
        clusterability(images, window=1)
    with pytest.raises(ValueError, match="at least one sample, got none"):
        clusterability([])
    with pytest.raises(ValueError, match="must be finite"):
        clusterability(np.full((3, 2), np.nan))
    for wrong in ({"floor": "a"}, {"floor": 0}, {"starts": 1.5}):
        with pytest.raises(ValueError, match="must be (greater than 0|at least 1), got"):
            clusterability(images, **wrong)
    with pytest.raises(ValueError, match="at least one row"):
        clusterability(np.zeros((0, 2)))


def test_the_histogram_counts_windows():
    from multipool.diagnostics import Clusterability

    found = Clusterability("pixel", "diag", 9, (0, 1, 2), (4, 2, 4), ((0.0,),) * 3)
    assert found.histogram == {2: 1, 4: 2}
    assert found.mean == pytest.approx(10 / 3)
    assert found.std == pytest.approx(math.sqrt(8 / 9))


@pytest.mark.slow
def test_real_images_under_two_corruptions_have_several_modes(shared, tmp_path):
    corruptions = ("contrast", "gaussian_noise")
    data = load("cifar100-c", shared / "data", domains=corruptions, cache_dir=tmp_path)
    stream = Stream(data, StreamConfig(limit=4000))
    found = clusterability(stream, max_windows=6)
    assert 4 <= found.mean <= 12  # the paper: 5.9 to 9.7 over three descriptors
    assert clusterability(stream, max_windows=6, covariance="full").mean > 1.5
