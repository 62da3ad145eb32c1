"""Models of other packages: the real ones where they import, with random weights."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from libraries import package
from multipool import adapt, models

TINY = "test_vit"  # timm's own for tests: a whole ViT with 0.4 M parameters at 160 px


def images(side, count=2):
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def by_hand(shown, mean, std):
    mean, std = (torch.tensor(numbers).view(3, 1, 1) for numbers in (mean, std))
    return (shown - mean) / std


@pytest.fixture
def timm_file(tmp_path):
    timm = package("timm")
    torch.manual_seed(0)
    model = timm.create_model(TINY, pretrained=False, num_classes=4).eval()
    torch.save(model.state_dict(), tmp_path / "own.pth")
    return tmp_path / "own.pth", model


@pytest.fixture
def vit_folder(tmp_path):
    """A folder as ``save_pretrained`` writes it, of a tiny ViT."""
    transformers = package("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
        num_labels=5,
    )
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path / "vit")
    shown = {
        "image_processor_type": "ViTImageProcessor",
        "do_normalize": True,
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.4, 0.5, 0.6],
        "size": {"height": 32, "width": 32},
    }
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(shown))
    return tmp_path / "vit", model


def test_a_timm_model_with_own_weights_is_normalised_as_timm_says(timm_file):
    path, theirs = timm_file
    model = models.load(path, 4, architecture=f"timm:{TINY}")
    config = package("timm").data.resolve_model_data_config(theirs)
    shown = images(config["input_size"][-1])
    with torch.no_grad():
        expected = theirs(by_hand(shown, config["mean"], config["std"]))
        assert torch.allclose(model(shown), expected, atol=1e-5)
    assert model.size == 160
    assert model.describe().endswith("160 x 160 pixels (timm's configuration)")
    assert not model.training


def test_a_torchvision_model_is_normalised_as_its_own_transforms_say(tmp_path):
    torchvision = package("torchvision")
    torch.manual_seed(0)
    theirs = torchvision.models.get_model("resnet18", weights=None, num_classes=3).eval()
    torch.save(theirs.state_dict(), tmp_path / "own.pt")
    model = models.load(tmp_path / "own.pt", 3, architecture="torchvision:resnet18")
    shown = torchvision.models.ResNet18_Weights.IMAGENET1K_V1.transforms()
    with torch.no_grad():
        expected = theirs(by_hand(images(64), shown.mean, shown.std))
        assert torch.allclose(model(images(64)), expected, atol=1e-5)
    assert (model.size, model.origin) == (224, "torchvision's transforms")


def test_a_hugging_face_folder_is_a_model_with_its_own_normalisation(vit_folder):
    folder, theirs = vit_folder
    model = models.load(f"hf:{folder}", 5)
    with torch.no_grad():
        expected = theirs(by_hand(images(32), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))).logits
        assert torch.allclose(model(images(32)), expected, atol=1e-5)
    assert model.size == 32
    with pytest.raises(ValueError, match=r"^hf:.* has 5 classes, expected 9; .*--classes FILE$"):
        models.load(f"hf:{folder}", 9)


def test_own_weights_go_into_a_hugging_face_architecture(vit_folder, tmp_path):
    folder, theirs = vit_folder
    state = {k: v + 1 if k == "classifier.bias" else v for k, v in theirs.state_dict().items()}
    torch.save(state, tmp_path / "own.pt")
    model = models.load(tmp_path / "own.pt", architecture=f"hf:{folder}")
    with torch.no_grad():
        same = models.load(f"hf:{folder}")(images(32)) + 1
        assert torch.allclose(model(images(32)), same, atol=1e-5)


def test_a_folder_that_does_not_say_its_normalisation_asks_for_wrap(vit_folder):
    folder, _ = vit_folder
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "Other"}')
    with pytest.raises(ValueError, match=r"has no image_mean and image_std .*models\.wrap"):
        models.load(f"hf:{folder}")
    (folder / "preprocessor_config.json").write_text('{"do_normalize": false}')
    assert models.load(f"hf:{folder}").normalise.std.flatten().tolist() == [1.0] * 3


@pytest.mark.parametrize("hub", ["timm", "torchvision", "hf"])
def test_a_name_that_the_package_does_not_know_is_one_sentence(hub, tmp_path):
    package({"hf": "transformers"}.get(hub, hub))
    name = str(tmp_path / "nowhere") if hub == "hf" else "no_such_model"
    with pytest.raises(ValueError, match=f"^{hub} could not give the model '.*': .+") as caught:
        models.load(f"{hub}:{name}")
    assert "\n" not in str(caught.value)


def test_weights_that_do_not_fit_say_so(timm_file, tmp_path):
    path, _ = timm_file
    with pytest.raises(ValueError, match="own.pth has 4 classes, expected 10"):
        models.load(path, 10, architecture=f"timm:{TINY}")
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=f"does not fit timm:{TINY}: it has no 'cls_token'"):
        models.load(tmp_path / "other.pt", architecture=f"timm:{TINY}")


def test_an_adapter_takes_what_a_hub_gives(timm_file):
    path, _ = timm_file
    model = models.load(path, architecture=f"timm:{TINY}")
    adapter = adapt(model, "source", num_classes=4)
    with torch.no_grad():
        assert torch.allclose(adapter(images(160)), model(images(160)), atol=1e-5)


@pytest.mark.parametrize("hub", models.HUBS)
def test_a_missing_package_is_a_sentence_that_names_the_extra(hub, monkeypatch):
    name = {"hf": "transformers"}.get(hub, hub)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, f"{name}.utils", None)
    with pytest.raises(ValueError, match=rf"pip install 'multipool\[{hub}\]'$"):
        models.load(f"{hub}:anything")


def test_a_package_that_is_there_but_does_not_import_says_what_to_install(monkeypatch):
    import importlib

    def fail(name):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ValueError, match=r"does not import \(operator .*\); install the torchvis"):
        models.load("torchvision:resnet18")


@pytest.fixture
def robustbench(monkeypatch):
    """Stands in for RobustBench, which keeps to older versions of what we need."""
    stand_in, utils, asked = ModuleType("robustbench"), ModuleType("robustbench.utils"), []

    def load_model(name, dataset, threat_model):
        asked.append((name, dataset, threat_model))
        return nn.Sequential(nn.Flatten(), nn.Linear(48, 100 if dataset == "cifar100" else 10))

    utils.load_model = load_model
    monkeypatch.setitem(sys.modules, "robustbench", stand_in)
    monkeypatch.setitem(sys.modules, "robustbench.utils", utils)
    return asked


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


def test_robustbench_takes_no_weights_of_others(robustbench, tmp_path):
    torch.save(nn.Linear(1, 1).state_dict(), tmp_path / "own.pt")
    with pytest.raises(ValueError, match="robustbench:x comes with its weights"):
        models.load(tmp_path / "own.pt", architecture="robustbench:x")
