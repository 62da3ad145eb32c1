"""Fisher weights against autograd on a plain copy of the network."""

import copy

import torch
from torch.nn import functional as F

from multipool.engine.fisher import fisher_weights
from multipool.ops import Network


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
