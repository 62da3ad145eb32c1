"""A normalisation inside any model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from multipool import models


def test_a_wrapped_model_takes_images_in_0_to_1(tiny_net, make_images):
    wrapped = models.wrap(tiny_net, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    shown = make_images(4)
    expected = tiny_net((shown - mean.view(3, 1, 1)) / std.view(3, 1, 1))
    assert torch.allclose(wrapped(shown), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("model", (0,) * 3, (1,) * 3), "wrap takes a torch.nn.Module, got str"),
        ((nn.Identity(), (0.5,), (1,) * 3), "must have 3 numbers each, got 1 and 3"),
        ((nn.Identity(), (0,) * 3, (1, 0, 1)), "std must be positive"),
        ((nn.Identity(), 0.5, (1,) * 3), "mean must be 3 finite numbers, got 0.5"),
        ((nn.Identity(), (0, float("nan"), 0), (1,) * 3), "mean must be 3 finite numbers"),
        ((nn.Identity(), (0,) * 3, "abc"), "std must be 3 finite numbers, got 'abc'"),
        ((nn.Identity(), (123.7, 116.3, 103.5), (58.4,) * 3), "divide mean and std by 255"),
    ],
)
def test_a_wrong_normalisation_is_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        models.wrap(*arguments)


def test_nothing_is_normalised_twice():
    once = models.wrap(nn.Identity(), (0.5,) * 3, (0.5,) * 3)
    with pytest.raises(ValueError, match="has its normalisation inside already; pass model.model"):
        models.wrap(once, (0.5,) * 3, (0.5,) * 3)
