"""Networks that normalise where or how others do not, steered like all others."""

import pytest
import torch
from torch import nn

from multipool.methods.multipool.statistics import EachImage, with_statistics
from multipool.ops import Group, Network, batch, frozen
from multipool.ops.norms import BY_BATCH
from odd_nets import ODD_NETS, BatchNet, make_odd_net


@pytest.mark.parametrize("kind", ODD_NETS)
def test_the_source_branch_predicts_what_the_model_predicts(kind, make_images):
    model, x = make_odd_net(kind), make_images(6)
    network = Network(model)
    found = network.run(Group(x, network.source, frozen))[0]
    torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


def test_tokens_are_normalised_by_the_statistics_of_their_own_image(make_images):
    network, x = Network(make_odd_net("tokens")), make_images(3)
    rows = torch.stack([network.source.statistics * f for f in (1.0, 1.5, 2.0)])  # (B, S)
    layers = with_statistics(network.source, rows)
    together = network.run(Group(x, layers, EachImage()))[0]
    for i, row in enumerate(rows):
        alone = network.run(Group(x[i : i + 1], with_statistics(network.source, row), frozen))[0]
        torch.testing.assert_close(together[i : i + 1], alone, rtol=1e-4, atol=1e-5)


def test_groups_of_tokens_are_told_apart(make_images):
    network, x = Network(make_odd_net("tokens")), make_images(6)
    other = network.source.copy()
    other.statistics.mul_(2)
    groups = [Group(x[:2], network.source, batch), Group(x[2:], other, frozen)]
    apart = [network.run(group)[0] for group in groups]
    for one, found in zip(apart, network.run(*groups), strict=True):
        torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-5)


def test_a_layer_without_statistics_sees_each_group_by_itself(make_images):
    model, x = make_odd_net("batch"), make_images(6)
    network = Network(model)
    assert network.kinds == ["BatchNorm", BY_BATCH]
    assert network.has_statistics
    parts = network.run(*(Group(p, network.source, frozen) for p in (x[:2], x[2:])))
    for part, found in zip((x[:2], x[2:]), parts, strict=True):
        torch.testing.assert_close(found, model(part), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(parts[0], model(x)[:2], atol=1e-3)


def test_its_weights_are_learned_like_any_other_layers(make_images):
    model, x = make_odd_net("batch"), make_images(6)
    network = Network(model)
    branch = network.source.copy(trainable=True)
    found = branch.gradient(network.run(Group(x, branch, frozen))[0].square().mean())
    layers = [p for name, p in model.named_parameters() if "norm" in name]
    wanted = torch.autograd.grad(model(x).square().mean(), layers)
    torch.testing.assert_close(found, torch.cat(wanted), rtol=1e-3, atol=1e-5)


def test_one_without_weights_stays_as_it_is_without_a_word(make_images, caplog):
    model, x = BatchNet(affine=False).eval(), make_images(6)
    network = Network(model)
    assert network.kinds == ["BatchNorm"]
    torch.testing.assert_close(network.plain(x), model(x), rtol=1e-4, atol=1e-5)
    assert not caplog.records


def test_a_torchscript_model_is_run_as_it_is_and_said_to_be_out_of_reach(make_images, caplog):
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), make_images(2)
    whole = nn.Sequential(torch.jit.script(model), nn.Flatten(), nn.Linear(144, 5)).eval()
    network = Network(whole)
    assert network.source is None
    torch.testing.assert_close(network.plain(x), whole(x), rtol=1e-4, atol=1e-5)
    (record,) = caplog.records
    assert "TorchScript" in record.getMessage()


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_on_a_normalisation_layer_are_said_not_to_be_called(kind, make_images, caplog):
    model, called = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), []
    getattr(model[0], kind)(lambda *given: called.append("convolution"))
    getattr(model[1], kind)(lambda *given: called.append("norm"))
    network = Network(nn.Sequential(model, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval())
    (record,) = caplog.records
    assert "a BatchNorm2d has hooks, which an adapter never calls" in record.getMessage()
    network.plain(make_images(2))
    assert called == ["convolution"]
