import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from multipool.core import torch_generator
from multipool.diagnostics.mixture import (
    COVARIANCES,
    FitConfig,
    Mixture,
    fit,
    parameters,
    seed_members,
)


def blobs(sets=2, count=90, seed=0):
    """Return three well separated, correlated groups in two dimensions."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    mix = np.array([[0.6, 0.3], [0.0, 0.4]])
    points = centres[np.arange(count) % 3] + rng.normal(size=(sets, count, 2)) @ mix
    return torch.from_numpy(points)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_densities_are_those_of_scikit_learn(covariance):
    points = blobs(sets=1)[0].numpy()
    known = GaussianMixture(3, covariance_type=covariance, random_state=0).fit(points)
    parts = (known.weights_, known.means_, known.covariances_)
    mixture = Mixture(*(torch.from_numpy(part)[None] for part in parts))
    total = mixture.log_likelihood(torch.from_numpy(points)[None])
    assert total.item() == pytest.approx(known.score(points) * len(points), rel=1e-9)
    assert mixture.assign(torch.from_numpy(points)[None])[0].tolist() == list(known.predict(points))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_fit_is_as_likely_as_scikit_learns(covariance):
    points = blobs()
    config = FitConfig(covariance=covariance, tolerance=1e-9, iterations=500)
    found = fit(points, 3, config, torch_generator(0)).log_likelihood(points)
    for row, total in zip(points.numpy(), found.tolist(), strict=True):
        known = GaussianMixture(
            3, covariance_type=covariance, reg_covar=1e-3, tol=1e-9, max_iter=500, random_state=0
        ).fit(row)
        assert total == pytest.approx(known.score(row) * len(row), rel=1e-5)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("components", [1, 2, 5])
def test_parameters_are_counted_as_scikit_learn_counts_them(covariance, components):
    known = GaussianMixture(components, covariance_type=covariance).fit(blobs(sets=1)[0].numpy())
    assert int(parameters(components, torch.tensor(2), covariance)) == known._n_parameters()


def test_one_gaussian_has_the_mean_and_covariance_of_the_points():
    points = blobs(sets=1)
    found = fit(points, 1, FitConfig(covariance="full", floor=1e-6), torch_generator(0))
    expected = np.cov(points[0].numpy().T, bias=True) + 1e-6 * np.eye(2)
    np.testing.assert_allclose(found.means[0, 0], points[0].mean(dim=0), rtol=1e-9)
    np.testing.assert_allclose(found.spread[0, 0], expected, rtol=1e-9)
    assert found.weights.tolist() == [[1.0]]


def test_data_sets_fitted_in_parts_are_all_fitted(monkeypatch):
    points = blobs(sets=5)
    monkeypatch.setattr("multipool.diagnostics.mixture._MOST_NUMBERS", 1)
    found = fit(points, 3, FitConfig(), torch_generator(0))
    assert found.means.shape == (5, 3, 2)
    assert found.weights.min() > 0.3  # a third each


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_equal_points_are_no_reason_for_nan(covariance):
    points = torch.zeros(1, 6, 3, dtype=torch.float64)
    points[0, 3:] = 1.0
    found = fit(points, 4, FitConfig(covariance=covariance), torch_generator(0))
    assert found.log_likelihood(points).isfinite().all()
    assert found.spread.isfinite().all()


def test_seeds_find_far_groups_however_small():
    points = torch.zeros(1, 100, 2, dtype=torch.float64)
    points[0, 98], points[0, 99] = torch.tensor([50.0, 0.0]), torch.tensor([0.0, 50.0])
    member = seed_members(points, 3, torch_generator(0))[0]
    assert len({int(member[0]), int(member[98]), int(member[99])}) == 3
    assert len(member[:98].unique()) == 1


def test_a_config_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="did you mean 'full'"):
        FitConfig(covariance="ful")
    with pytest.raises(ValueError, match="floor must be greater than 0, got 0"):
        FitConfig(floor=0)
    with pytest.raises(ValueError, match="starts must be at least 1, got 0"):
        FitConfig(starts=0)
    with pytest.raises(ValueError, match="components must be 1 to the 90 points given, got 91"):
        fit(blobs(), 91, FitConfig(), torch_generator(0))
