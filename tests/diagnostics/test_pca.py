import numpy as np
import torch
from sklearn.decomposition import PCA

from multipool.diagnostics import Plane


def test_the_plane_is_that_of_scikit_learn_up_to_sign():
    points = np.random.default_rng(0).normal(size=(40, 5)) * [1, 5, 2, 0.1, 3]
    known = PCA(2).fit(points)
    plane = Plane.of(points)
    np.testing.assert_allclose(plane.explained, known.explained_variance_ratio_, rtol=1e-9)
    ours, theirs = plane.project(points).numpy(), known.transform(points)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-9)


def test_a_constant_stream_has_a_plane_too():
    plane = Plane.of(torch.full((4, 3, 8, 8), 0.5))
    assert plane.explained == (0.0, 0.0)
    assert plane.project(torch.full((2, 3, 8, 8), 0.5)).abs().max() < 1e-12


def test_one_sample_is_the_middle():
    plane = Plane.of(np.ones((1, 3)))
    assert plane.project(np.ones((1, 3))).tolist() == [[0.0, 0.0]]
