from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from multipool.bench.speed.methods import (
    PASSES,
    every_pair,
    measure_methods,
)
from multipool.methods import METHODS, adapt
from multipool.ops import Network


@pytest.fixture
def model(loader):
    return loader.model(None, 4, "cpu")


def test_a_speed_says_the_same_in_all_its_units(model):
    images = torch.randint(0, 256, (20, 3, 8, 8), dtype=torch.uint8)
    pairs = [("source", None), ("rotta", "mcm"), ("petta", "single")]
    found = measure_methods(model, images, pairs, batch_size=8, batches=3, warm_up=1)
    assert [(speed.method, speed.memory) for speed in found] == pairs
    for speed in found:
        assert speed.samples_per_second == pytest.approx(8000 / speed.milliseconds)
        assert 0 < speed.mean_per_second < 3 * speed.samples_per_second
        assert speed.necessary_ratio is not None
        assert 0 < speed.necessary_ratio <= speed.forward_ratio * 1.0001
        assert 0 <= speed.memory_share < 1
        # All 4 batches are cold here, and all of the start.
        assert speed.start_seconds > 4 * 8 / speed.cold_per_second
        assert speed.source_share > 0
        assert speed.precision == "float32"  # chosen on a CPU
    assert found[0].memory_share == 0


def test_memories_of_one_method_are_measured_beside_its_own_pool(model):
    images = torch.randint(0, 256, (20, 3, 8, 8), dtype=torch.uint8)
    pairs = [("rotta", "single"), ("rotta", "mcm+"), ("petta", "mcm"), ("bn", None)]
    own, plus, alone, bn = measure_methods(model, images, pairs, batch_size=8, batches=3, warm_up=1)
    assert own.pool_ratio == 1
    assert plus.pool_ratio == pytest.approx(plus.milliseconds / own.milliseconds)
    assert plus.forward_ratio / own.forward_ratio == pytest.approx(plus.pool_ratio)
    assert alone.pool_ratio is bn.pool_ratio is None


def test_the_model_is_left_as_it_was(model):
    model[0].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    asked = [p.requires_grad for p in model.parameters()]
    images = torch.rand(8, 3, 8, 8)
    measure_methods(model, images, [("tent", None)], batch_size=4, batches=1, warm_up=0)
    assert [p.requires_grad for p in model.parameters()] == asked
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_every_method_is_measured_and_only_real_ones_have_passes():
    assert {method for method, _ in every_pair()} == set(METHODS)
    assert set(PASSES) <= set(METHODS)


@pytest.mark.parametrize("method", PASSES)
def test_a_step_makes_just_the_passes_that_are_called_necessary(model, monkeypatch, method):
    images = torch.randint(0, 256, (64, 3, 8, 8), dtype=torch.uint8)
    source = [(images[:32], torch.arange(32) % 4), (images[32:], torch.arange(32) % 4)]
    options = {"gate": 2.0} if method == "resitta" else None  # an untrained model doubts all
    adapter = adapt(model, method, source=source, guard=False, options=options)
    adapter(images)
    learning, original = [], Network._forward

    def counted(self, given):
        logits = original(self, given)
        learning.append(logits.requires_grad)
        return logits

    monkeypatch.setattr(Network, "_forward", counted)
    adapter(images.flip(0))
    stored, own, both = PASSES[method]
    assert (learning.count(False), learning.count(True)) == (stored + own, both)


def test_wrong_counts_are_refused(model):
    with pytest.raises(ValueError, match="batches and batch_size must be at least 1"):
        measure_methods(model, torch.rand(8, 3, 8, 8), [("bn", None)], batches=0)


def test_the_runner_needs_neither_the_command_lines_packages_nor_matplotlib():
    code = (
        "import sys\n"
        "for name in ('typer', 'rich', 'matplotlib', 'pooch', 'yaml'):\n"
        "    sys.modules[name] = None\n"
        "from multipool.bench.run.runner import run\n"
        "from multipool.bench.speed.methods import measure_methods\n"
        "import multipool.bench.report.report, multipool.bench.report.demo\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
