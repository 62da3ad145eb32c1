"""Two Gaussians fitted by compiled code and by numpy: the same to rounding, and nothing unsound."""

from types import ModuleType

import numpy as np
import pytest

from multipool.methods.multipool import gaussians
from multipool.methods.multipool.gaussians import Axis, Fits, fit
from multipool.methods.multipool.split import two_domains

needs_compiled = pytest.mark.skipif(
    not gaussians.available(), reason="the fit was not compiled, or is switched off"
)


def make(count, width, starts=5, gap=4.0):
    """Return white points of two domains, and starts that know more or less of them."""
    rng = np.random.default_rng(count + width)
    points = rng.standard_normal((count, width))
    second = rng.random(count) < 0.4
    points[second, 0] += gap
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    near = (rng.random((starts, count)) < np.where(second, 0.2, 0.6)).astype(np.float64)
    near[0] = 0.0  # a domain that nobody is in
    return points, near, second


@needs_compiled
@pytest.mark.parametrize("count", [16, 17, 64, 101, 341])
@pytest.mark.parametrize("width", [1, 3, 8, 20, 96])
@pytest.mark.parametrize("starts", [1, 4, 6, 12])
def test_both_ways_find_the_same(count, width, starts):
    points, near, _ = make(count, width, starts)
    found, expected = fit(points, near), gaussians._fit(points, near)
    ended = np.isfinite(expected.likelihoods)
    np.testing.assert_array_equal(np.isfinite(found.likelihoods), ended)
    for name in ("means", "shares", "likelihoods"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one[ended], other[ended], rtol=1e-9, atol=1e-10)
    assert found.likelihoods[0] == -np.inf


@pytest.mark.parametrize("seed", range(6))
def test_a_split_is_the_same_without_the_compiled_fit(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((300, 24))
    if seed % 2:
        points[rng.random(300) < 0.5] += 7.0 / np.sqrt(24)  # a distance of 7 in all
    found = two_domains(points, np.random.default_rng(seed), 0.33)
    monkeypatch.setenv("MULTIPOOL_COMPILED", "0")
    assert not gaussians.available()
    again = two_domains(points, np.random.default_rng(seed), 0.33)
    assert (found is None) == (again is None) == (seed % 2 == 0)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("compiled", ["1", "0"])
def test_the_best_axis_tells_two_domains_apart(compiled, monkeypatch):
    monkeypatch.setenv("MULTIPOOL_COMPILED", compiled)
    points, near, second = make(400, 10)
    axis = fit(points, near).best(points)
    assert axis is not None
    assert np.linalg.norm(axis.direction) == pytest.approx(1.0)
    assert np.abs(axis.direction).argmax() == 0  # the domains differ there alone
    agreement = np.mean(axis.first(points @ axis.direction) == second)
    assert max(agreement, 1 - agreement) > 0.9
    assert min(axis.share, 1 - axis.share) == pytest.approx(0.4, abs=0.05)
    likelihoods = fit(points, near).likelihoods
    assert axis.gain(points @ axis.direction) == pytest.approx(likelihoods.max())


@pytest.mark.parametrize("compiled", ["1", "0"])
def test_starts_that_lose_a_domain_have_no_axis(compiled, monkeypatch):
    monkeypatch.setenv("MULTIPOOL_COMPILED", compiled)
    points, near, _ = make(50, 4)
    found = fit(points, np.stack([near[0], 1 - near[0]]))
    assert (found.likelihoods == -np.inf).all()
    assert found.best(points) is None


def test_the_points_and_starts_stay_as_they_are():
    points, near, _ = make(40, 5)
    before = points.copy(), near.copy()
    fit(points, near)
    np.testing.assert_array_equal(points, before[0])
    np.testing.assert_array_equal(near, before[1])


def test_a_fit_of_another_version_is_not_used(monkeypatch):
    old = ModuleType("_gaussians")
    old.VERSION = gaussians.VERSION - 1
    monkeypatch.setattr(gaussians, "_gaussians", old)
    assert not gaussians.available()
    points, near, _ = make(30, 3)
    assert isinstance(fit(points, near), Fits)


@needs_compiled
@pytest.mark.parametrize(
    ("position", "change"),
    [
        (0, lambda old: old.astype(np.float32)),
        (0, lambda old: old[:1]),
        (0, lambda old: old[:, :0]),
        (0, lambda old: old[0]),
        (0, lambda old: np.asfortranarray(old)),
        (0, lambda old: old[1:]),
        (1, lambda old: old.astype(np.int64)),
        (1, lambda old: old[:0]),
        (1, lambda old: old[1:]),
        (1, lambda old: old[:, 1:].copy()),
        (2, lambda old: old[1:]),
        (2, lambda old: old[:, :1].copy()),
        (2, lambda old: old[..., 1:].copy()),
        (3, lambda old: old[1:]),
        (3, lambda old: None),
        (4, lambda old: np.frombuffer(old.tobytes())),
        (4, lambda old: old[1:]),
    ],
)
def test_unsound_arguments_are_refused(position, change):
    points, near, _ = make(20, 6)
    arguments = [points, near, np.zeros((5, 2, 6)), np.zeros(5), np.zeros(5)]
    arguments[position] = change(arguments[position])
    with pytest.raises((ValueError, TypeError, BufferError)):
        gaussians._gaussians.fit(*arguments)


@needs_compiled
def test_an_array_to_be_written_must_not_be_shared():
    points, near, _ = make(20, 6)
    shared = np.zeros(5)
    with pytest.raises(ValueError, match="shares"):
        gaussians._gaussians.fit(points, near, np.zeros((5, 2, 6)), shared, shared)


@needs_compiled
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1.0])
def test_numbers_that_are_none_end_without_an_axis_or_with_one(value):
    points, near, _ = make(33, 5)
    for spoilt in (points, near):
        spoilt[3] = value
        assert fit(points, near).likelihoods.shape == (5,)


def test_an_axis_gains_by_hand_what_two_gaussians_explain_better():
    axis = Axis(np.array([1.0]), (-3.0, 3.0), share=0.5, variance=1.0)
    places = np.array([-3.0, 3.0])
    # One Gaussian: variance 9, each place at one deviation. Two: each in the middle of its own.
    one = -0.5 - 0.5 * np.log(9.0)
    both = np.log(0.5 * (1 + np.exp(-18.0)))
    assert axis.gain(places) == pytest.approx(both - one)
    assert axis.first(np.array([-1.0, -0.1, 0.1, 5.0])).tolist() == [True, True, False, False]
    uneven = Axis(np.array([1.0]), (-3.0, 3.0), share=0.9, variance=1.0)
    assert uneven.first(np.array([0.1])).tolist() == [True]  # the larger has the benefit of doubt
