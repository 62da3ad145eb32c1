"""Fisher weights and their pull against autograd on a plain copy of the network."""

import copy

import torch
from torch.nn import functional as F

from multipool.ops import Network
from multipool.ops.fisher import fisher_pull, fisher_weights


def test_weights_are_the_mean_squared_gradient_of_each_batchs_mean(tiny_net, make_images):
    batches = [make_images(16, seed=s) for s in range(3)]
    network = Network(tiny_net)
    found = fisher_weights(network, network.source.copy(trainable=True), batches)
    net = copy.deepcopy(tiny_net).train()
    affine = [p for n in (net.bn1, net.bn2, net.bn3) for p in (n.weight, n.bias)]
    total = 0
    for x in batches:
        z = net(x)
        grads = torch.autograd.grad(F.cross_entropy(z, z.argmax(1)), affine)
        total = total + torch.cat(grads).square()
    torch.testing.assert_close(found, total / 3, rtol=1e-4, atol=1e-8)


def test_weights_are_found_where_gradients_are_switched_off_too(tiny_net, make_images):
    network = Network(tiny_net)
    with torch.no_grad():
        found = fisher_weights(network, network.source.copy(trainable=True), [make_images(8)])
    assert found.max() > 0


def test_the_pulls_gradient_is_autograds():
    g = torch.Generator().manual_seed(0)
    values, anchor, weights = (torch.rand(9, generator=g, dtype=torch.float64) for _ in range(3))
    values.requires_grad_()
    value, slope = fisher_pull(values, anchor, weights)
    expected = sum(w * (v - a) ** 2 for w, v, a in zip(weights, values, anchor, strict=True))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(slope, torch.autograd.grad(expected, values)[0])
