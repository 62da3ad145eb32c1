"""Precision that nobody named: what is chosen where, for which models, and what files keep."""

import itertools
import logging

import pytest
import torch
from torch import nn

import multipool
from multipool.engine import Setup, precision
from multipool.engine.precision import Place, choose, doubt, network_for
from multipool.methods import METHODS
from multipool.ops import Network, network
from multipool.testing import source_batches

FUSED = [name for name, kind in METHODS.items() if kind.fuses]
OFF, ON = {"graphs": False}, {"compile": True}
GOOD = Place("cuda", 8, fuses=True, statistics=True, kernels=True)


@pytest.fixture
def eager(monkeypatch):
    """Choose as a GPU with fused kernels would, on a CPU."""
    real = precision._place

    def place(model, fuses):
        here = real(model, fuses)
        return Place("cuda", 9, here.fuses, here.statistics, kernels=True)

    monkeypatch.setattr(precision, "_place", place)


def scaled(net: nn.Module, by: float) -> nn.Module:
    """Return the net with activations ``by`` times as large before its first BatchNorm."""
    state = net.state_dict()
    mean = next(name for name in state if name.endswith("running_mean"))
    with torch.no_grad():
        next(p for p in net.parameters() if p.ndim == 4).mul_(by)
        state[mean].mul_(by)
        state[mean.replace("mean", "var")].mul_(by**2)
    return net


def test_float16_needs_everything_that_speaks_for_it():
    assert choose(GOOD) == "fp16"
    bad = {"device": "cpu", "capability": 7, "fuses": False, "statistics": False, "kernels": False}
    for name, value in bad.items():
        assert choose(Place(**{**vars(GOOD), name: value})) == "float32", name


def test_on_a_cpu_it_is_float32_and_nothing_is_tried(tiny_net, monkeypatch):
    monkeypatch.setattr(precision, "doubt", lambda *_: pytest.fail("tried on a CPU"))
    adapter = multipool.adapt(tiny_net)
    assert (adapter.setup.precision, adapter.network.precision) == ("auto", "float32")


def test_kernels_are_compiled_only_where_all_else_holds(tiny_net, monkeypatch):
    monkeypatch.setattr(precision.fused, "get_ready", lambda *_: pytest.fail("compiled"))
    assert not precision._place(Network(tiny_net), fuses=True).kernels


def test_a_model_that_computes_the_same_is_trusted(tiny_net):
    assert doubt(Network(tiny_net), Network(tiny_net, "fp16")) is None


@pytest.mark.parametrize("by", [1e4, 1e6])
def test_a_model_that_overflows_float16_or_nearly_does_is_not(make_net, make_images, by):
    net = scaled(make_net(), by)
    plain, half = Network(net), Network(net, "fp16")
    assert plain.plain(make_images(4)).isfinite().all()
    torch.testing.assert_close(  # the same classifier, with larger numbers inside
        plain.plain(make_images(4)), Network(make_net()).plain(make_images(4)), rtol=1e-2, atol=1e-3
    )
    assert "little room" in doubt(plain, half)


def test_another_answer_and_an_overflow_behind_the_last_layer_are_seen(make_net):
    plain, other = Network(make_net()), make_net()
    with torch.no_grad():
        next(p for p in other.parameters() if p.ndim == 4).mul_(-1)
    assert "logits differ" in doubt(plain, Network(other, "fp16"))

    class Squared(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = make_net()

        def forward(self, x):
            return self.net(x) + 0 * (300 * x).square().sum(dim=(1, 2, 3))[:, None]

    assert "logits differ" in doubt(Network(Squared()), Network(Squared(), "fp16"))


def test_whatever_goes_wrong_in_the_trial_means_float32(tiny_net, monkeypatch):
    half = Network(tiny_net, "fp16")
    assert "trial failed" in doubt(Network(nn.Sequential(nn.Flatten(), nn.Linear(7, 5))), half)
    nowhere = lambda model, images: torch.full((3,), torch.inf)  # noqa: E731
    monkeypatch.setattr(precision, "_gradient", nowhere)
    assert doubt(Network(tiny_net), half) == "gradients overflow"


def test_the_trial_finds_the_side_and_the_channels_of_a_model():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 64 * 64, 3)
    ).eval()
    assert precision._images_for(Network(net)).shape[1:] == (1, 64, 64)
    assert doubt(Network(net), Network(net, "fp16")) is None


def test_the_trial_leaves_networks_as_they_were_and_says_nothing(make_net, caplog):
    net = nn.Sequential(make_net(), nn.Softmax(dim=1)).eval()
    plain, half = Network(net), Network(net, "fp16")
    states = [model.fingerprint() for model in (plain, half)]
    before = [{name: t.clone() for name, t in state.items()} for state in states]
    with caplog.at_level(logging.DEBUG):
        doubt(plain, half)
    assert not caplog.records
    assert not plain.inspected
    assert not half.inspected
    for model, kept in zip((plain, half), before, strict=True):
        assert all(torch.equal(t, kept[name]) for name, t in model.fingerprint().items())


@pytest.mark.usefixtures("eager")
def test_methods_on_fused_kernels_compute_in_float16_and_others_do_not(make_net):
    for name in (*FUSED, "tent", "source"):
        adapter = multipool.adapt(make_net(), name, source=source_batches())
        assert adapter.network.precision == ("fp16" if name in FUSED else "float32"), name


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("other", "chosen"), [({}, "fp16"), (OFF, "float32"), (ON, "float32")])
def test_fused_kernels_want_graphs_and_no_compiler(make_net, monkeypatch, other, chosen):
    monkeypatch.setattr(network, "compiled", lambda body: body)
    setup = Setup(num_classes=5, precision="auto", **other)
    assert network_for(METHODS["rotta"], make_net(), setup).precision == chosen


@pytest.mark.usefixtures("eager")
def test_a_model_that_overflows_stays_in_float32_with_a_word_in_the_log(make_net, caplog):
    with caplog.at_level(logging.INFO, logger="multipool"):
        adapter = multipool.adapt(scaled(make_net(), 1e6), "rotta")
    assert adapter.network.precision == "float32"
    assert "float32" in caplog.text
    assert "precision" not in repr(adapter)


@pytest.mark.parametrize("method", FUSED)
def test_saved_in_float16_it_goes_on_in_float32_and_back(
    method, make_net, make_images, tmp_path, request
):
    path, source = tmp_path / "a.safetensors", source_batches()
    here = multipool.adapt(make_net(), method, source=source)
    request.getfixturevalue("eager")
    there = multipool.adapt(make_net(), method, source=source)
    assert (here.network.precision, there.network.precision) == ("float32", "fp16")
    assert "precision='fp16'" in repr(there)
    for first, second in itertools.permutations((here, there)):
        first(make_images(32, seed=1))
        first.save(path)
        precisions = {"fp16": "cuda", "float32": "cpu"}
        place = Place(precisions[second.network.precision], 9, True, True, True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(precision, "_place", lambda *_, place=place: place)
            back = multipool.load(path, make_net(), source=source)
        assert back.network.precision == second.network.precision
        assert back.setup.precision == "auto"
        x = make_images(16, seed=2)
        torch.testing.assert_close(back.predict(x), first.predict(x), rtol=0.02, atol=0.02)


@pytest.mark.usefixtures("eager")
def test_a_named_precision_is_kept_in_files_and_refuses_other_weights(
    make_net, make_images, tmp_path
):
    path = tmp_path / "a.safetensors"
    adapter = multipool.adapt(make_net(), "rotta", precision="float32")
    adapter(make_images(8))
    adapter.save(path)
    assert multipool.load(path, make_net()).network.precision == "float32"
    auto = multipool.adapt(make_net(), "rotta")
    auto.save(path)
    other = make_net()
    with torch.no_grad():
        next(p for p in other.parameters() if p.ndim == 4)[0, 0, 0, 0] += 0.01
    with pytest.raises(ValueError, match="another model"):
        multipool.load(path, other)
