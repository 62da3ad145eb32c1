"""Models of other packages, played by stand-ins."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from multipool import models


def network(classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, classes))


@pytest.fixture
def timm(monkeypatch):
    package = ModuleType("timm")

    def create_model(name, pretrained, num_classes=10):
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})\nsecond line")
        assert pretrained or num_classes in (4, 10)
        return network(num_classes)

    package.create_model = create_model
    package.data = SimpleNamespace(
        resolve_model_data_config=lambda model: {"mean": (0.1, 0.2, 0.3), "std": (0.5, 0.5, 0.5)}
    )
    monkeypatch.setitem(sys.modules, "timm", package)


@pytest.fixture
def torchvision(monkeypatch):
    package, asked = ModuleType("torchvision"), []

    def get_model(name, weights, num_classes=10):
        asked.append((name, weights))
        return network(num_classes)

    package.models = SimpleNamespace(get_model=get_model)
    monkeypatch.setitem(sys.modules, "torchvision", package)
    return asked


@pytest.fixture
def robustbench(monkeypatch):
    package, utils, asked = ModuleType("robustbench"), ModuleType("robustbench.utils"), []

    def load_model(name, dataset, threat_model):
        asked.append((name, dataset, threat_model))
        return network(100 if dataset == "cifar100" else 10)

    utils.load_model = load_model
    monkeypatch.setitem(sys.modules, "robustbench", package)
    monkeypatch.setitem(sys.modules, "robustbench.utils", utils)
    return asked


def test_a_timm_model_is_normalised_as_timm_says(timm):
    model = models.load("timm:tiny")
    images = torch.rand(2, 3, 4, 4)
    mean = torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)
    assert torch.allclose(model(images), model.model((images - mean) / 0.5))
    assert not model.training


def test_what_goes_wrong_in_the_package_is_one_sentence(timm):
    with pytest.raises(ValueError, match=r"^timm could not give the model 'big': Unknown model"):
        models.load("timm:big")


def test_torchvision_weights_are_the_first_version_unless_named(torchvision):
    model = models.load("torchvision:resnet50")
    models.load("torchvision:resnet50:IMAGENET1K_V2")
    assert torchvision == [("resnet50", "IMAGENET1K_V1"), ("resnet50", "IMAGENET1K_V2")]
    assert model.normalise.mean.flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])


def test_robustbench_takes_its_dataset_from_the_classes_or_the_name(robustbench):
    models.load("robustbench:Standard")
    models.load("robustbench:AugMix", num_classes=100)
    models.load("robustbench:cifar100/AugMix")
    assert robustbench == [
        ("Standard", "cifar10", "corruptions"),
        ("AugMix", "cifar100", "corruptions"),
        ("AugMix", "cifar100", "corruptions"),
    ]
    with pytest.raises(ValueError, match="no dataset with 7 classes; use robustbench:DATASET/Some"):
        models.load("robustbench:Some", num_classes=7)


def test_a_wrong_number_of_classes_is_noticed(timm):
    with pytest.raises(ValueError, match=r"^timm:tiny has 10 classes, expected 100$"):
        models.load("timm:tiny", num_classes=100)


@pytest.mark.parametrize("hub", models.HUBS)
def test_a_missing_package_is_a_sentence_that_names_the_extra(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, hub, None)
    monkeypatch.setitem(sys.modules, f"{hub}.utils", None)
    with pytest.raises(ValueError, match=rf"pip install 'multipool\[{hub}\]'$"):
        models.load(f"{hub}:anything")


@pytest.mark.parametrize("hub", ["timm", "torchvision"])
def test_a_file_of_weights_fills_another_packages_architecture(timm, torchvision, tmp_path, hub):
    own = network(classes=4)
    torch.save(own.state_dict(), tmp_path / "own.pt")
    model = models.load(tmp_path / "own.pt", 4, architecture=f"{hub}:tiny")
    assert torch.equal(model.model[1].weight, own[1].weight)
    assert model(torch.rand(2, 3, 4, 4)).shape == (2, 4)
    with pytest.raises(ValueError, match=r"own\.pt has 4 classes, expected 10"):
        models.load(tmp_path / "own.pt", 10, architecture=f"{hub}:tiny")
    torch.save({"other": torch.zeros(1)}, tmp_path / "own.pt")
    with pytest.raises(ValueError, match=f"does not fit {hub}:tiny: it has no '1.weight'"):
        models.load(tmp_path / "own.pt", architecture=f"{hub}:tiny")


def test_robustbench_takes_no_weights_of_others(robustbench, tmp_path):
    torch.save(network().state_dict(), tmp_path / "own.pt")
    with pytest.raises(ValueError, match="robustbench:x comes with its weights"):
        models.load(tmp_path / "own.pt", architecture="robustbench:x")
