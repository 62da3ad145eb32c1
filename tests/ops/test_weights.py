import copy

import pytest
import torch
from torch import nn

from multipool.ops import Network
from multipool.ops.flat import gradients
from multipool.ops.weights import Weights


def test_whole_weights_run_like_the_model_and_hold_all_of_its_parameters(tiny_net, make_images):
    weights = Weights(Network(tiny_net), method="toy", trainable=True)
    reference = copy.deepcopy(tiny_net).train()
    x, y = make_images(6, seed=1), make_images(3, seed=2)
    first, second = weights.run(x, y)  # one pass, two statistics
    torch.testing.assert_close(first, reference(x))
    torch.testing.assert_close(second, reference(y))
    assert len(weights.values) == sum(p.numel() for p in tiny_net.parameters())


def test_whole_weights_get_the_gradient_of_every_parameter(tiny_net, make_images):
    weights = Weights(Network(tiny_net), method="toy", trainable=True)
    reference = copy.deepcopy(tiny_net).train()
    x = make_images(6, seed=1)
    (gradient,) = gradients(weights.run(x)[0].square().mean(), weights.flat)
    reference(x).square().mean().backward()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.01)
    optimizer.step()
    weights.values.sub_(0.01 * gradient)
    torch.testing.assert_close(weights.run(x)[0], reference(x), rtol=1e-4, atol=1e-5)


def test_two_copies_and_the_network_itself_are_independent(tiny_net, make_images):
    network = Network(tiny_net)
    one, other = (Weights(network, method="toy") for _ in range(2))
    x = make_images(4)
    before, plain = other.run(x)[0], network.plain(x)
    one.values.zero_()
    assert torch.equal(other.run(x)[0], before)
    assert torch.equal(network.plain(x), plain)
    assert one.run(x)[0].abs().max() == 0
    assert one.branch.affine.abs().max() == 0  # a view of the values


def test_a_model_without_normalisation_layers_can_be_one_and_one_without_weights_cannot():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    x = torch.rand(4, 3, 1, 1)
    weights = Weights(Network(model), method="toy", trainable=True)
    torch.testing.assert_close(weights.run(x)[0], model(x))
    with pytest.raises(ValueError, match="'toy' trains a model's weights and this one has none"):
        Weights(Network(nn.Flatten()), method="toy")
