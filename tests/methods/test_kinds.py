"""Every method on every kind of model that it claims, against a naive reading of its equations.

The references are those of the methods' own tests, over whole networks with torch's own layers.
"""

import copy
from itertools import islice

import pytest
import torch
from literal import CLASSES, SEED, LiteralRoTTA, compare, stream
from test_cmf import Literal as LiteralCMF
from test_cotta import LiteralCoTTA
from test_deyo import Literal as LiteralDeYO
from test_eata import Literal as LiteralEATA
from test_eata import literal_fisher
from test_lame import literal as literal_lame
from test_petta import LiteralPeTTA
from test_resitta import LiteralResiTTA
from test_rmt import LiteralRMT
from test_rmt import source as labelled
from test_roid import Literal as LiteralROID
from test_sar import Literal as LiteralSAR
from torch import nn
from torch.nn import functional as F

import multipool.memory as memory_room
from kinds import make_kind_net
from multipool.methods import adapt

KINDS = ["batchnorm", "layernorm", "groupnorm", "instancenorm", "rmsnorm", "channel-first"]
PAIRS = [*((kind, None) for kind in KINDS), ("batchnorm", "layernorm")]
each_kind = pytest.mark.parametrize(("kind", "second"), PAIRS)


def batch_copy(model):
    """Return a copy that normalises by the batch where it keeps statistics, and what is trained."""
    net = copy.deepcopy(model).requires_grad_(False).train()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
    trained = [p.requires_grad_() for n, p in net.named_parameters() if n.startswith("norm")]
    return net, trained


def check(adapter, reference, batches, trained):
    """Compare prediction by prediction, and then what was trained."""
    start = torch.cat([p.detach().flatten().clone() for p in trained])
    for x in batches:
        torch.testing.assert_close(adapter(x), reference(x), rtol=2e-4, atol=2e-4)
    now = torch.cat([p.detach().flatten() for p in trained])
    torch.testing.assert_close(adapter.method.student.affine, now, rtol=1e-3, atol=2e-4)
    assert (now - start).abs().max() > 1e-4, "nothing was learned"


@each_kind
@pytest.mark.parametrize("method", ["tent", "pl"])
def test_entropy_and_pseudo_labels(kind, second, method, drift):
    model = make_kind_net(kind, second)
    net, trained = batch_copy(model)
    optimizer = torch.optim.Adam(trained, lr=1e-3)

    def reference(x):
        z = net(x)
        p = z.softmax(1)
        loss = -(p * p.log()).sum(1).mean() if method == "tent" else F.cross_entropy(z, z.argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return z.detach()

    check(adapt(model, method, guard=False), reference, drift(4), trained)


@each_kind
@pytest.mark.parametrize("method", ["eata", "rdumb"])
def test_selected_entropy_with_and_without_the_fisher_penalty(
    kind, second, method, drift, make_images
):
    model, source = make_kind_net(kind, second), make_images(64, seed=9)
    net, trained = batch_copy(model)
    options = {"entropy_margin": 0.6, "redundancy": 0.8}
    if method == "eata":
        fisher = literal_fisher(net, trained, source, 32)
        options |= {"fisher_weight": 50.0, "fisher_images": 64, "fisher_batch": 32}
        reference = LiteralEATA(net, trained, fisher, 50.0)
    else:
        reference = LiteralEATA(net, trained)
    given = [(source, None)]
    adapter = adapt(model, method, guard=False, source=given, options=options)
    check(adapter, reference, drift(4), trained)
    assert sum(reference.counts) > 0


@each_kind
def test_roid(kind, second, drift):
    model = make_kind_net(kind, second)
    net, trained = batch_copy(model)
    adapter = adapt(model, "roid", seed=SEED, guard=False, options={"batch_size": 32})
    check(adapter, LiteralROID(net, trained, 32), drift(4), trained)


@each_kind
@pytest.mark.parametrize("method", ["sar", "deyo", "cmf"])
def test_the_heirs_of_tent_and_roid(kind, second, method, drift):
    model = make_kind_net(kind, second)
    net, trained = batch_copy(model)
    # SAR in short steps: with InstanceNorm at 1e-2 every step makes rounding four times as large.
    options, reference = {
        "sar": (
            {"entropy_margin": 0.6, "recovery": 0.0, "lr": 2e-3},
            LiteralSAR(net, trained, lr=2e-3),
        ),
        "deyo": (
            {"entropy_margin": 0.8, "weight_margin": 0.05, "drop": 0.0},
            LiteralDeYO(net, trained, 0.8),
        ),
        "cmf": ({"batch_size": 32, "process_noise": 5.0}, LiteralCMF(net, trained, 32, 5.0)),
    }[method]
    adapter = adapt(model, method, seed=SEED, guard=False, options=options)
    if method == "sar":
        reference.limit = adapter.method.limit
    check(adapter, reference, drift(4), trained)


@each_kind
def test_cotta_trains_all_weights(kind, second, drift):
    model = make_kind_net(kind, second)
    # Views every time: where student and teacher agree the gradient is 0 and Adam follows rounding.
    options = {"views": 3, "confidence": 1.0, "restore_rate": 0.0}
    adapter = adapt(model, "cotta", seed=SEED, guard=False, options=options)
    reference = LiteralCoTTA(model, 1.0, 3, "ce", "adam", False)
    for x in drift(3):
        reference.noise.set_state(adapter.method.noise.get_state())  # it draws what to restore, too
        torch.testing.assert_close(adapter(x), reference(x), rtol=1e-3, atol=1e-3)
    assert adapter.method.student.values.numel() == sum(p.numel() for p in model.parameters())


@each_kind
def test_rmt_trains_all_weights_with_source_replay(kind, second, make_images):
    model, data = make_kind_net(kind, second), labelled(make_images)
    options = {"source_batch": 16, "projection": 6, "warmup_images": 0}
    adapter = adapt(model, "rmt", source=data, seed=SEED, guard=False, options=options)
    projector = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 6))
    with torch.no_grad():
        for ours, theirs in zip(
            adapter.method.projector.leaves, projector.parameters(), strict=True
        ):
            theirs.copy_(ours)
    reference = LiteralRMT(model, data, projector, "adam", False)
    reference.draws.bit_generator.state = adapter.method.draws.bit_generator.state
    for t in range(3):
        x = make_images(12, seed=t)
        torch.testing.assert_close(adapter(x), reference(x), rtol=2e-3, atol=2e-3)


@each_kind
@pytest.mark.parametrize("method", ["rotta", "petta", "resitta"])
def test_memory_methods_move_statistics_where_there_are_any(kind, second, method, make_images):
    model, source = make_kind_net(kind, second), make_images(100, seed=7)
    bank = memory_room.build(
        "entropy" if method == "resitta" else "class-balanced", CLASSES, seed=SEED
    )
    reference = {
        "rotta": lambda: LiteralRoTTA(model, bank),
        "petta": lambda: LiteralPeTTA(model, bank, source, "sce"),
        "resitta": lambda: LiteralResiTTA(model, bank),
    }[method]()
    adapter = adapt(model, method, source=[(source, None)], seed=SEED, guard=False)
    compare(adapter, reference, islice(stream(make_images), 5))


@each_kind
def test_methods_that_leave_the_model_alone(kind, second, make_images):
    model, x = make_kind_net(kind, second), make_images(24)
    with torch.no_grad():
        plain, wanted = model(x), literal_lame(model, x, "knn")
    torch.testing.assert_close(adapt(model, "source")(x), plain, rtol=1e-4, atol=1e-4)
    found = adapt(model, "lame")(x).softmax(1)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    recentred = plain - (plain - model.fc.bias).mean(0)
    torch.testing.assert_close(adapt(model, "neo")(x), recentred, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", [*KINDS[1:], "none"])
def test_multipool_that_learns_nothing_is_the_source_model_and_its_decoder(kind, make_images):
    model, still = make_kind_net(kind), {"lr_without": 0.0, "centre": 1.0, "again": 0.0}
    raw = adapt(model, "multipool", options=still, decode="none")
    decoded = adapt(model, "multipool", options=still)
    source = adapt(model, "source", decode="sequence")
    for t in range(4):
        x = make_images(32, seed=t)
        with torch.no_grad():
            torch.testing.assert_close(raw(x), model(x), rtol=1e-4, atol=1e-4)
        assert torch.equal(decoded(x), source(x))
    assert decoded.pools == []
