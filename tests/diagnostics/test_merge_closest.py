import torch
from sklearn.mixture import GaussianMixture

from multipool.diagnostics.clusterability import merge_closest
from multipool.diagnostics.mixture import Mixture


def line(places, weights, full):
    """Return one mixture of unit Gaussians at ``places`` on a line in two dimensions."""
    means = torch.tensor([[float(x), 0.0] for x in places], dtype=torch.float64)
    spread = torch.eye(2, dtype=torch.float64) if full else torch.ones(2, dtype=torch.float64)
    shares = torch.tensor(weights, dtype=torch.float64)
    return Mixture(shares[None], means[None], spread.expand(1, len(means), *spread.shape))


def test_the_closest_pair_becomes_one_with_its_moments():
    for full in (False, True):
        merged = merge_closest(line([0, 10, 12], [0.5, 0.25, 0.25], full))
        assert merged.weights.tolist() == [[0.5, 0.5]]
        assert merged.means.tolist() == [[[0.0, 0.0], [11.0, 0.0]]]
        found = merged.spread[0, 1].diagonal() if full else merged.spread[0, 1]
        assert found.tolist() == [2.0, 1.0]  # 1 within, and 1 between: two units apart


def test_small_components_merge_before_large_ones_as_far_apart():
    merged = merge_closest(line([0, 5, 100, 105], [0.45, 0.45, 0.05, 0.05], full=False))
    assert merged.means[0, :, 0].tolist() == [0.0, 5.0, 102.5]


def test_merging_down_to_one_keeps_mean_and_variance_of_the_whole():
    points = torch.rand(60, 3, generator=torch.Generator().manual_seed(0)).double().numpy()
    known = GaussianMixture(4, covariance_type="full", random_state=0).fit(points)
    parts = (known.weights_, known.means_, known.covariances_)
    mixture = Mixture(*(torch.from_numpy(part)[None] for part in parts))
    weight, mean = mixture.weights[0], mixture.means[0]
    middle = weight @ mean
    off = mean - middle
    whole = torch.einsum("k,kij->ij", weight, mixture.spread[0] + off[:, :, None] * off[:, None])
    for _ in range(3):
        mixture = merge_closest(mixture)
    torch.testing.assert_close(mixture.means[0, 0], middle)
    torch.testing.assert_close(mixture.spread[0, 0], whole)
