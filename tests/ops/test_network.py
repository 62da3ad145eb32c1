"""A steered network equals the plain model, and one grouped pass equals separate passes."""

import pytest
import torch
from torch import nn

from multipool.methods.resitta import Residual
from multipool.ops import Group, Network, Robust, activated, batch, frozen
from multipool.ops.steering import Norm


def test_the_source_branch_predicts_what_the_model_predicts(tiny_net, make_images):
    images = make_images(7)
    network = Network(tiny_net)
    expected = tiny_net(images)
    torch.testing.assert_close(network.plain(images), expected)
    torch.testing.assert_close(network.run(Group(images, network.source, frozen))[0], expected)


def test_batch_mode_is_the_model_in_train_mode(tiny_net, make_images):
    images = make_images(16)
    network = Network(tiny_net)
    got = network.run(Group(images, network.source, batch))[0]
    torch.testing.assert_close(got, tiny_net.train()(images))


def test_the_given_model_is_left_as_it_was(tiny_net, make_images):
    before = {k: v.clone() for k, v in tiny_net.state_dict().items()}
    network = Network(tiny_net)
    branch = network.source.copy(trainable=True)
    loss = network.run(Group(make_images(8), branch, Robust(0.5)))[0].square().sum()
    branch.affine.sub_(branch.gradient(loss))
    assert all(torch.equal(v, before[k]) for k, v in tiny_net.state_dict().items())
    assert all(isinstance(m, nn.BatchNorm2d) for n, m in tiny_net.named_modules() if "bn" in n)


def test_a_grouped_pass_equals_separate_passes_in_values_and_gradients(tiny_net, make_images):
    clean, view = make_images(6, 1), make_images(6, 2)
    results = []
    for grouped in (False, True):
        network = Network(tiny_net)
        student, teacher = network.source.copy(trainable=True), network.source.copy()
        groups = [
            Group(clean, student, Robust(0.3)),
            Group(view, student, Robust(0.3)),
            Group(clean, teacher, Robust(0.3)),
        ]
        logits = network.run(*groups) if grouped else [network.run(g)[0] for g in groups]
        loss = logits[0].square().mean() + (logits[1] - logits[2].detach()).square().mean()
        results.append(
            [
                *logits,
                student.gradient(loss),
                student.statistics.clone(),
                teacher.statistics.clone(),
            ]
        )
    for separate, together in zip(*results, strict=True):
        torch.testing.assert_close(together, separate, rtol=1e-4, atol=1e-5)


def test_features_are_the_input_of_the_last_linear_layer(tiny_net, make_images):
    network = Network(tiny_net)
    logits = network.plain(make_images(5))
    features = network.features()
    assert features.shape == (5, 8)
    torch.testing.assert_close(network.classify(features), logits)


def test_a_model_that_does_not_end_in_a_linear_layer_has_no_features(make_images):
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.Tanh())
    network = Network(model)
    network.plain(make_images(3))
    with pytest.raises(ValueError, match="end the model with torch.nn.Linear"):
        network.features()


def test_a_model_without_batchnorm_predicts_and_says_what_it_lacks(make_images):
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 5)).eval()
    network = Network(model)
    images = make_images(3)
    torch.testing.assert_close(network.plain(images), model(images))
    with pytest.raises(
        ValueError, match="'rotta' adapts the weights of normalisation layers and .* none"
    ):
        network.require_source("rotta")


def test_a_half_precision_model_is_worked_on_in_float32(tiny_net, make_images):
    network = Network(tiny_net.half())
    assert network.plain(make_images(2)).dtype == torch.float32


def test_a_layer_used_twice_stays_one_layer(make_images):
    shared = nn.BatchNorm2d(3)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.Flatten(), nn.Linear(192, 2)).eval()
    network = Network(model)
    assert len(network.source.layers) == 1
    images = make_images(3)
    torch.testing.assert_close(network.plain(images), model(images))


def test_bfloat16_stays_near_float32(tiny_net, make_images):
    images = make_images(8)
    exact, coarse = Network(tiny_net).plain(images), Network(tiny_net, "bf16").plain(images)
    assert coarse.dtype == torch.float32
    torch.testing.assert_close(coarse, exact, rtol=0.05, atol=0.1)


def test_float16_is_nearer_and_its_gradients_too(tiny_net, make_images):
    images, found = make_images(8), {}
    for precision in ("float32", "bf16", "fp16"):
        network = Network(tiny_net, precision)
        branch = network.require_source("test").copy(trainable=True)
        (logits,) = network.run(Group(images, branch, Robust(0.05)))
        found[precision] = logits.detach(), branch.gradient(logits.logsumexp(dim=1).mean())
        assert logits.dtype == found[precision][1].dtype == torch.float32
    for exact, coarse, fine in zip(*found.values(), strict=True):
        gap = float((fine - exact).norm() / exact.norm())
        assert gap < 3e-3
        assert gap < float((coarse - exact).norm() / exact.norm()) / 2


def test_convolutions_have_no_gradient_of_their_own(tiny_net):
    assert not any(p.requires_grad for p in Network(tiny_net).body.parameters())


def test_the_layout_of_the_images_changes_no_bit(tiny_net, make_images):
    network, images = Network(tiny_net), make_images(6)
    prepared = network.prepare(images)
    assert prepared.is_contiguous()
    turned = prepared.contiguous(memory_format=torch.channels_last)
    assert torch.equal(network.plain(prepared), network.plain(turned))


@pytest.mark.parametrize("policy", [frozen, batch, Robust(0.05), Residual(0.05)])
def test_relu_in_place_of_a_steered_layer_changes_no_bit(tiny_net, policy):
    network = Network(tiny_net)
    layer = next(m for m in network.body.modules() if isinstance(m, Norm))
    channels = len(network.source.layers[layer.index].weight)
    x = torch.randn(4, channels, 5, 5, generator=torch.Generator().manual_seed(0))
    found = []
    for activation in (activated, lambda norm, x: torch.relu(norm(x))):
        branch, leaf = network.source.copy(trainable=True), x.clone().requires_grad_()
        network._steering.plan = [(branch, policy, len(x))]
        out = activation(layer, leaf)
        state = branch.layers[layer.index]
        gradients = torch.autograd.grad(out.square().sum(), [leaf, state.weight, state.bias])
        found.append([out, *gradients, branch.statistics])
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_relu_leaves_the_output_of_an_ordinary_layer_alone():
    kept = torch.randn(3, 4)
    before = kept.clone()
    assert torch.equal(activated(nn.Identity(), kept), before.clamp(min=0))
    assert torch.equal(kept, before)


def test_what_layers_keep_beside_tensors_is_no_part_of_the_fingerprint(tiny_net):
    class Noted(nn.Identity):  # as quantised layers do
        def get_extra_state(self):
            return {"dtype": torch.qint8}

    model = nn.Sequential(tiny_net, Noted())
    assert "1._extra_state" in model.state_dict()
    found = Network(model).fingerprint(rounded=True)
    assert all(isinstance(value, torch.Tensor) for value in found.values())
