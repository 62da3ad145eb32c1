import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import distance as scipy_distance

from multipool.memory import DISTANCES
from multipool.memory.distances import Covariance, cosine, mahalanobis

numbers = st.floats(0, 1, width=32)
vectors = st.integers(1, 12).flatmap(
    lambda d: st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=2, max_size=6)
)


@pytest.mark.parametrize(
    ("name", "other"), [("l2", "euclidean"), ("l1", "cityblock"), ("cosine", "cosine")]
)
def test_distances_agree_with_scipy(name, other):
    points = np.random.default_rng(0).random((20, 11))
    expected = [getattr(scipy_distance, other)(p, points[0]) for p in points]
    assert np.allclose(DISTANCES[name](points, points[0], None), expected, atol=1e-12)


def test_mahalanobis_agrees_with_scipy():
    rng = np.random.default_rng(0)
    points, precision = rng.random((20, 5)), np.linalg.inv(np.cov(rng.random((5, 40))))
    expected = [scipy_distance.mahalanobis(p, points[0], precision) for p in points]
    assert np.allclose(mahalanobis(points, points[0], precision), expected, atol=1e-12)


@pytest.mark.parametrize("name", sorted(DISTANCES))
@given(points=vectors)
def test_a_distance_does_not_depend_on_the_company_or_the_layout(name, points):
    points = np.array(points)
    width = points.shape[1]
    precision = np.eye(width) + 0.1 if name == "mahalanobis" else None
    together = DISTANCES[name](np.asfortranarray(points), points[0], precision)
    alone = [
        DISTANCES[name](points[k : k + 1], points[0], precision)[0] for k in range(len(points))
    ]
    assert together.tolist() == alone
    assert together[0] == 0
    backwards = [DISTANCES[name](points[:1], point, precision)[0] for point in points]
    assert backwards == alone


def test_cosine_with_a_zero_vector_is_one_and_zero_to_itself():
    points = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert cosine(points, np.zeros(2)).tolist() == [0.0, 1.0]
    assert cosine(points, np.array([1.0, 0.0])).tolist() == [1.0, 0.0]


def test_covariance_agrees_with_numpy_and_waits_for_2d_samples():
    points = np.random.default_rng(0).random((50, 3))
    covariance = Covariance(3)
    for number, point in enumerate(points):
        if number < 6:
            assert covariance.precision() is None
        covariance.add(point)
    spread = np.cov(points.T, bias=True)
    shrunk = 0.9 * spread + 0.1 * np.trace(spread) / 3 * np.eye(3)
    assert np.allclose(covariance.precision(), np.linalg.inv(shrunk))


def test_covariance_of_equal_points_is_the_identity():
    covariance = Covariance(2)
    for _ in range(1000):
        covariance.add(np.array([0.3, 0.7]))
    assert covariance.precision() is None
