"""TENT against methods.md 3.4, and on networks without BatchNorm."""

import math

import pytest
import torch
from torch import nn

from multipool.methods import adapt, load
from multipool.ops import Group, batch


def literal_entropy(z):
    p = z.softmax(1)
    return -(p * p.log()).sum(1)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_ten_steps_do_what_the_definition_does(tiny_net, batch_copy, drift, assert_follows, kind):
    net, affine = batch_copy(tiny_net)
    if kind == "adam":
        optimizer = torch.optim.Adam(affine, lr=1e-3)
    else:
        optimizer = torch.optim.SGD(affine, lr=1e-3, momentum=0.9, nesterov=True)

    def reference(x):
        z = net(x)
        optimizer.zero_grad()
        literal_entropy(z).mean().backward()
        optimizer.step()
        return z.detach()

    adapter = adapt(tiny_net, "tent", guard=False, options={"optimizer": kind})
    assert_follows(adapter, reference, drift(), affine)


def literal_opinion(z):
    """COME: beliefs and what is not known, the logits' norm held."""
    norm = z.norm(dim=1, keepdim=True)
    evidence = (z / norm * norm.detach()).exp()
    strength = evidence.sum(1, keepdim=True) + z.shape[1]
    shares = torch.cat([evidence, torch.full_like(strength, z.shape[1])], 1) / strength + 1e-7
    return -(shares * shares.log()).sum(1)


def test_with_come_it_minimises_the_entropy_of_opinion(tiny_net, batch_copy, drift, assert_follows):
    net, affine = batch_copy(tiny_net)
    optimizer = torch.optim.Adam(affine, lr=1e-3)

    def reference(x):
        z = net(x)
        optimizer.zero_grad()
        literal_opinion(z).mean().backward()
        optimizer.step()
        return z.detach()

    adapter = adapt(tiny_net, "tent", guard=False, options={"loss": "come"})
    assert_follows(adapter, reference, drift(), affine)


@pytest.mark.parametrize("name", ["eata", "sar"])
def test_with_come_others_select_and_learn_by_it_too(tiny_net, make_images, name):
    """One step of SGD from the source: the selection's and the loss's entropies are COME's."""
    margin = 0.06
    options = {"loss": "come", "entropy_margin": margin, "lr": 0.1}
    if name == "eata":
        options |= {"redundancy": 2.0, "fisher_weight": 0.0, "optimizer": "sgd"}
    else:
        options |= {"recovery": 0.0, "radius": 0.0}
    adapter = adapt(tiny_net, name, source=[make_images(64)], guard=False, options=options)
    x = make_images(48, seed=5)
    student = adapter.network.source.copy(trainable=True)
    (z,) = adapter.network.run(Group(x, student, batch))
    doubt, limit = literal_opinion(z), margin * math.log(5)
    chosen = doubt < limit
    assert 0 < int(chosen.sum()) < 48, "the filter was not put to the test"
    weights = torch.exp(limit - doubt.detach()) if name == "eata" else torch.ones(48)
    slope = student.gradient((weights * doubt)[chosen].mean())
    factor = 1.9 if name == "eata" else 1.0  # Nesterov's first step is 1 + momentum
    adapter(x)
    moved = adapter.method.student.affine - adapter.network.source.affine
    torch.testing.assert_close(moved, -0.1 * factor * slope, rtol=1e-3, atol=1e-6)


def layered(kind):
    """Return a network that normalises by LayerNorm or GroupNorm only."""
    torch.manual_seed(0)
    norm = nn.GroupNorm(2, 6) if kind == "group" else nn.LayerNorm([6, 8, 8])
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), norm, nn.ReLU(), nn.Flatten(), nn.Linear(384, 5)
    ).eval()


@pytest.mark.parametrize("kind", ["group", "layer"])
def test_without_batchnorm_it_trains_the_other_normalisation_layers(kind, drift):
    model = layered(kind)
    adapter = adapt(model, "tent", guard=False, options={"lr": 1e-2})
    net = layered(kind).requires_grad_(False)
    affine = [net[1].weight.requires_grad_(), net[1].bias.requires_grad_()]
    optimizer = torch.optim.Adam(affine, lr=1e-2)
    for x in drift():
        z = net(x)
        torch.testing.assert_close(adapter(x), z.detach(), rtol=2e-4, atol=2e-4)
        optimizer.zero_grad()
        literal_entropy(z).mean().backward()
        optimizer.step()
    assert (net[1].weight - model[1].weight).abs().max() > 1e-2


def test_without_batchnorm_it_saves_loads_and_resets_too(drift, tmp_path):
    batches = drift(4)
    adapter = adapt(layered("group"), "tent")
    first = [adapter(x) for x in batches]
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", layered("group"))
    assert torch.equal(adapter(batches[0]), again(batches[0]))
    adapter.reset()
    assert all(torch.equal(a, adapter(x)) for a, x in zip(first, batches, strict=True))


def test_half_precision_trains_the_other_layers_too(drift):
    adapter = adapt(layered("layer"), "tent", precision="bf16", options={"lr": 1e-2})
    x = drift(1, 64)[0]
    before = literal_entropy(adapter.predict(x)).mean()
    for _ in range(5):
        adapter(x)
    assert literal_entropy(adapter.predict(x)).mean() < before


def test_a_model_without_any_normalisation_is_refused_in_a_sentence():
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    with pytest.raises(
        ValueError, match="'tent' adapts normalisation layers and .* none .*: multipool, source"
    ):
        adapt(net, "tent")


def test_an_update_that_raises_is_undone_and_the_prediction_still_comes(tiny_net, make_images):
    adapter = adapt(tiny_net, "tent")
    expected = adapter.predict(make_images(8))
    real = adapter.method.loss

    def fail(_):
        raise torch.OutOfMemoryError("none left")

    adapter.method.loss = fail
    torch.testing.assert_close(adapter(make_images(8)), expected)
    adapter.method.loss = real
    assert adapter.counts == {"updates": 1, "skipped": 1, "restored": 0}


def test_a_loss_that_is_not_finite_is_undone(tiny_net, make_images):
    adapter = adapt(tiny_net, "tent")
    before = adapter.state_dict()["student.affine"]
    adapter.method.loss = lambda logits: logits.sum() * float("nan")
    assert adapter(make_images(8)).isfinite().all()
    assert torch.equal(adapter.state_dict()["student.affine"], before)
    assert adapter.counts["skipped"] == 1


def test_an_unknown_optimizer_is_a_sentence(tiny_net):
    with pytest.raises(ValueError, match="optimizer of tent 'adan'"):
        adapt(tiny_net, "tent", options={"optimizer": "adan"})
