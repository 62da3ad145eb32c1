"""Noise against NumPy's own distributions."""

import math

import numpy as np
import pytest

from multipool.data.corruptions import PARAMETER_SETS, corrupt
from multipool.data.corruptions.noise import _poisson_quantiles


def _cut(values):
    return np.uint8(np.clip(values, 0, 1) * 255)


def _gaussian(x, c, rng):
    return _cut(x + rng.normal(0, c, x.shape))


def _speckle(x, c, rng):
    return _cut(x + x * rng.normal(0, c, x.shape))


def _shot(x, c, rng):
    return _cut(rng.poisson(x * c) / c)


def _impulse(x, c, rng):
    hit, salt = rng.random(x.shape) < c, rng.random(x.shape) < 0.5
    return _cut(np.where(hit, salt, x))


REFERENCES = {
    "gaussian_noise": _gaussian,
    "speckle_noise": _speckle,
    "shot_noise": _shot,
    "impulse_noise": _impulse,
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("parameters", PARAMETER_SETS)
def test_noise_has_the_published_mean_and_spread(name, severity, parameters, photos, same_change):
    level = getattr(PARAMETER_SETS[parameters], name)[severity - 1]
    rng = np.random.default_rng(severity)
    reference = np.stack([REFERENCES[name](x / 255, level, rng) for x in photos])
    ours = corrupt(photos, name, severity, parameters=parameters)
    same_change(photos, ours, reference, spread=0.01)


def test_shot_noise_of_one_grey_has_poisson_probabilities():
    grey = np.full((64, 32, 32, 3), 51, dtype=np.uint8)  # a fifth of white: mean 0.6 of 3 photons
    out = corrupt(grey, "shot_noise", 5, parameters="imagenet-c")
    shares = [np.mean(out == level) for level in (0, 85, 170)] + [np.mean(out == 255)]
    wanted = [math.exp(-0.6) * p for p in (1, 0.6, 0.18)]
    wanted.append(1 - sum(wanted))
    np.testing.assert_allclose(shares, wanted, atol=0.004)  # 3 standard errors of 196,608 draws


def test_the_quantile_table_rises_in_every_row_and_black_stays_black():
    table = _poisson_quantiles(5).view(256, 65536)
    assert not table[0].any()
    assert bool((table[:, 1:] >= table[:, :-1]).all())


def test_noise_hits_channels_and_neighbours_independently():
    grey = np.full((64, 32, 32, 3), 128, dtype=np.uint8)
    for name in REFERENCES:
        change = corrupt(grey, name, 3).astype(float) - 128
        for one, other in ((change[..., 0], change[..., 1]), (change[:, 1:], change[:, :-1])):
            assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02, name


def test_impulses_are_black_or_white_and_as_many_as_published():
    grey = np.full((64, 32, 32, 3), 100, dtype=np.uint8)
    out = corrupt(grey, "impulse_noise", 5)
    assert set(np.unique(out)) == {0, 100, 255}
    assert np.mean(out == 0) == pytest.approx(0.035, abs=0.0015)
    assert np.mean(out == 255) == pytest.approx(0.035, abs=0.0015)
