"""LayerNorm and GroupNorm parameters as one vector."""

import pytest
import torch
from torch import nn

from multipool.ops import Network
from multipool.ops.affine import LayerAffine


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.GroupNorm(2, 4),
        nn.LayerNorm([4, 6, 6]),
        nn.LayerNorm(6, bias=False),
        nn.Flatten(),
        nn.Linear(144, 5),
    )


def test_the_gradient_is_autograds_on_the_model_itself(model, make_images):
    network = Network(model)
    layers = LayerAffine(network, method="toy")
    x = make_images(4)
    found = layers.gradient(layers.run(network.prepare(x)).square().mean())
    parts = [p for i in (1, 2, 3) for p in model[i].parameters()]
    wanted = torch.autograd.grad(model(x).square().mean(), parts)
    torch.testing.assert_close(found, torch.cat([g.flatten() for g in wanted]))
    assert len(layers.values) == 2 * 4 + 2 * 144 + 6


def test_its_values_decide_and_the_network_it_came_from_stays(model, make_images):
    network = Network(model)
    layers = LayerAffine(network, method="toy")
    before, mark = network.plain(make_images(4)), network.fingerprint()
    torch.testing.assert_close(layers.run(make_images(4)), before)
    layers.values.mul_(2)
    assert not torch.allclose(layers.run(make_images(4)), before)
    assert torch.equal(network.plain(make_images(4)), before)
    assert all(torch.equal(v, mark[k]) for k, v in network.fingerprint().items())


def test_a_model_without_such_layers_is_a_sentence():
    with pytest.raises(ValueError, match="'toy' trains the affine parameters .* has none"):
        LayerAffine(Network(nn.Linear(3, 2)), method="toy")
