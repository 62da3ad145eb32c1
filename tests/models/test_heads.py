"""A new last layer: the rest of the model is untouched."""

from __future__ import annotations

import copy

import pytest
import torch

from multipool import models


@pytest.mark.parametrize("name", ["wrn10-1", "vit-small-32", "resnet50-domainnet126"])
def test_only_the_last_layer_is_new_and_its_classes_are_as_asked(name):
    model = models.build(name, 4).eval()
    before = copy.deepcopy(model.state_dict())
    after = models.with_new_head(model, 9, seed=1).state_dict()
    head = models.MODELS[name].head
    assert models.classifier(model).out_features == 9
    for key in before:
        assert key.startswith(f"{head}.") or torch.equal(before[key], after[key])
    side = 64 if "resnet" in name else 32
    with torch.no_grad():
        assert model(torch.rand(2, 3, side, side)).shape == (2, 9)


def test_the_seed_decides_the_new_layer():
    first, same, other = (models.build("wrn10-1", 4) for _ in range(3))
    heads = [
        models.with_new_head(model, 5, seed).fc.weight
        for model, seed in ((first, 1), (same, 1), (other, 2))
    ]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="^num_classes must be at least 2, got 1$"):
        models.with_new_head(models.build("wrn10-1", 4), 1)


def test_some_outputs_of_a_model_are_those_of_the_whole_one(tiny_net, make_images):
    before = copy.deepcopy(tiny_net.state_dict())
    some = models.with_outputs(tiny_net, [4, 1])
    assert torch.allclose(some(make_images(3)), tiny_net(make_images(3))[:, [4, 1]], atol=1e-6)
    assert all(torch.equal(tiny_net.state_dict()[key], before[key]) for key in before)


@pytest.mark.parametrize("outputs", [[0, 5], [1, 1], [2], [-1, 2]])
def test_outputs_that_are_none_are_refused(tiny_net, outputs):
    with pytest.raises(ValueError, match="at least 2 different ones of the model's 0 to 4, got"):
        models.with_outputs(tiny_net, outputs)
