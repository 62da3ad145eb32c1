"""The model that answers by the mean of an image and of its mirror image."""

import importlib.util
from pathlib import Path

import pytest
import torch

from multipool import models
from multipool.methods import adapt
from multipool.ops.mirror import mirrored

FILE = Path(__file__).resolve().parents[2] / "examples" / "mirrored.py"


@pytest.fixture(scope="module")
def mirror():
    """Return the example as a module."""
    spec = importlib.util.spec_from_file_location("mirrored_example", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_answers_by_the_mean_of_both(mirror):
    plain = models.load("shapes-wrn10-1").eval()
    both = mirror.Mirrored(models.load("shapes-wrn10-1")).eval()
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = (plain(images) + plain(mirrored(images))) / 2
        found = both(images)
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, plain(images), atol=1e-3)


@pytest.mark.parametrize("method", ["bn", "rotta", "neo", "multipool"])
def test_methods_run_on_it(mirror, method):
    model = mirror.Mirrored(models.load("shapes-wrn10-1"))
    adapter = adapt(model, method)
    assert adapter(torch.rand(8, 3, 32, 32)).shape == (8, 100)


def test_the_weights_lie_where_the_environment_says(mirror, monkeypatch, tmp_path):
    model = models.build("wrn16-2", num_classes=10)
    file = tmp_path / "cifar10_wrn16_2.safetensors"
    models.save(model, file, {"architecture": "wrn16-2"})
    monkeypatch.setenv("WEIGHTS", str(tmp_path))
    assert mirror.cifar10()(torch.rand(2, 3, 32, 32)).shape == (2, 10)
