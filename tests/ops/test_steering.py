"""A steered network equals the model, whatever it normalises by, in values and in gradients."""

import copy
import pickle

import pytest
import torch
from torch import nn

from kinds import NORMS, WITHOUT_STATISTICS, make_kind_net
from multipool.ops import Group, Network, batch, frozen
from multipool.ops.steering import OwnNorm

KINDS = [(kind, None) for kind in NORMS] + [("batchnorm", "layernorm"), ("groupnorm", "rmsnorm")]


@pytest.mark.parametrize(("kind", "second"), KINDS)
def test_the_source_branch_predicts_what_the_model_predicts(kind, second, make_images):
    model, x = make_kind_net(kind, second), make_images(6)
    network = Network(model)
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(network.plain(x), model(x), **close)
    if network.source is not None:
        found = network.run(Group(x, network.source, frozen))[0]
        torch.testing.assert_close(found, model(x), **close)


@pytest.mark.parametrize("kind", WITHOUT_STATISTICS)
def test_gradients_are_autograds_on_the_model_itself(kind, make_images):
    model, x = make_kind_net(kind), make_images(6)
    network = Network(model)
    branch = network.source.copy(trainable=True)
    found = branch.gradient(network.run(Group(x, branch, batch))[0].square().mean())
    layers = [p for n, p in model.named_parameters() if "norm" in n]
    wanted = torch.autograd.grad(model(x).square().mean(), layers)
    torch.testing.assert_close(
        found, torch.cat([g.flatten() for g in wanted]), rtol=1e-4, atol=1e-5
    )
    assert len(branch.affine) == sum(p.numel() for p in layers)
    assert not branch.has_statistics
    assert list(branch.state) == ["affine"]


@pytest.mark.parametrize("kind", WITHOUT_STATISTICS)
def test_two_branches_in_one_call_do_not_mix(kind, make_images):
    network, x = Network(make_kind_net(kind)), make_images(4)
    one, other = network.source.copy(), network.source.copy()
    other.affine.mul_(0.5)
    together = network.run(Group(x, one, frozen), Group(x, other, frozen))
    apart = [network.run(Group(x, branch, frozen))[0] for branch in (one, other)]
    assert all(torch.equal(a, b) for a, b in zip(together, apart, strict=True))
    assert not torch.allclose(*together)


def test_a_mixture_has_one_vector_and_statistics_of_its_batchnorm_layers_only(make_images):
    network = Network(make_kind_net("batchnorm", "layernorm"))
    assert network.kinds == ["BatchNorm", "LayerNorm", "BatchNorm"]
    assert network.has_statistics
    assert len(network.source.affine) == 2 * (6 + 8 + 8)
    assert len(network.source.statistics) == 2 * (6 + 8)
    x = make_images(8)
    model = make_kind_net("batchnorm", "layernorm").train()
    found = network.run(Group(x, network.source, batch))[0]
    torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-4)


def test_a_layer_whose_parameters_span_several_axes_is_one_row_of_the_vector(make_images):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.LayerNorm([4, 6, 6]), nn.LayerNorm(6, bias=False), nn.Flatten(),
        nn.Linear(144, 5),
    )  # fmt: skip
    network, x = Network(model), make_images(4)
    branch = network.source.copy(trainable=True)
    assert branch.sizes == [144, 144, 6, 0]
    found = branch.gradient(network.run(Group(x, branch, batch))[0].square().mean())
    parts = [p for i in (1, 2) for p in model[i].parameters()]
    wanted = torch.autograd.grad(model(x).square().mean(), parts)
    torch.testing.assert_close(found, torch.cat([g.flatten() for g in wanted]))


def test_torchs_own_transformer_layers_take_their_quick_way_with_the_branchs_values(make_images):
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 8, 4, 4)
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8))
            self.head = nn.Linear(8, 5)

        def forward(self, x):
            return self.head(self.encoder(self.patch(x).flatten(2).mT).mean(1))

    torch.manual_seed(0)
    model, x = Tiny().eval(), make_images(4)
    network = Network(model)
    branch = network.source.copy(trainable=True)
    branch.affine.mul_(1.5)
    with torch.no_grad():
        quick = network.run(Group(x, branch, batch))[0]
        for name, p in model.named_parameters():
            if "norm" in name:
                p.mul_(1.5)
        torch.testing.assert_close(quick, model(x), rtol=1e-4, atol=1e-5)
    logits = network.run(Group(x, branch, batch))[0]
    torch.testing.assert_close(logits, quick, rtol=1e-4, atol=1e-5)
    assert branch.gradient(logits.square().mean()).abs().max() > 0


@pytest.mark.parametrize("kind", [*WITHOUT_STATISTICS, "norm-act"])
def test_a_steered_network_is_copied_and_pickled_whole(kind, make_images):
    network, x = Network(make_kind_net(kind)), make_images(4)
    wanted = network.plain(x)
    assert torch.equal(copy.deepcopy(network).plain(x), wanted)
    assert torch.equal(pickle.loads(pickle.dumps(network)).plain(x), wanted)


@pytest.mark.parametrize("kind", WITHOUT_STATISTICS)
def test_half_precision_keeps_the_vector_in_float32(kind, make_images):
    network, x = Network(make_kind_net(kind), "bf16"), make_images(4)
    branch = network.source.copy(trainable=True)
    logits = network.run(Group(x, branch, batch))[0]
    assert logits.dtype == branch.affine.dtype == torch.float32
    assert branch.gradient(logits.square().mean()).abs().max() > 0
    wanted = make_kind_net(kind)(x)
    assert (logits - wanted).norm() < 0.2 * wanted.norm()


def test_a_compiled_body_follows_the_plain_layers_and_steps_around_the_others(make_images):
    x = make_images(4)
    for kind in ("layernorm", "channel-first"):
        model = make_kind_net(kind)
        network = Network(model, compile_body=True)
        network._call = torch.compile(network.body, backend="eager")
        torch.testing.assert_close(network.plain(x), model(x), rtol=1e-4, atol=1e-5)


def test_the_layer_answers_for_what_stood_there():
    network = Network(nn.Sequential(nn.Flatten(), nn.LayerNorm(192, eps=1e-3), nn.Linear(192, 5)))
    network.plain(torch.rand(2, 3, 8, 8))
    layer = next(m for m in network.modules() if isinstance(m, OwnNorm))
    assert layer.eps == 1e-3
    assert layer.normalized_shape == (192,)
    assert torch.equal(layer.weight, network.source.layers[0].weight)
    with pytest.raises(AttributeError):
        _ = layer.colour
