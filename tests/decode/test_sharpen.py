"""Factors against the plain softmax, and the least one that is sharp enough."""

import numpy as np
import torch

from multipool.decode.sharpen import FACTORS, choose_factor, sums, sureness


def test_sureness_is_the_highest_probability_at_each_factor():
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = sureness(sums((logits - logits.amax(dim=1, keepdim=True)).numpy()))
    for position, factor in enumerate(FACTORS):
        expected = (factor * logits).softmax(dim=1).amax(dim=1)
        np.testing.assert_allclose(found[:, position], expected)
    assert (found[:, -1] == 1).all()


def test_a_sure_model_is_left_as_it_is_and_an_unsure_one_sharpened_just_enough():
    more = [0.9] * (len(FACTORS) - 6)
    rising = np.array([0.3, 0.4, 0.5, 0.65, 0.7, 0.8, *more, 1.0])
    assert choose_factor(4 * rising) == 3.0
    assert choose_factor(rising + np.array([0.3, *[0.0] * len(FACTORS)])) == 1.0
    assert choose_factor(np.array([*[0.1] * len(FACTORS), 1.0])) == FACTORS[-1] == 256.0
