"""Architectures: shapes, names and sizes against the published ones."""

from __future__ import annotations

import copy

import pytest
import torch
from PIL import Image
from torch import nn

from multipool import models
from multipool.bench.run import Experiment
from multipool.bench.run.loader import Loader
from multipool.models.table import BUILT_IN, skeleton, with_normalisation

SIDES = {"resnet18-64": 64, "resnet50": 64, "resnet50-domainnet126": 64}  # any multiple of 32 works
# Sizes that papers and packages print:
# WRN-28-10 36.5 M and WRN-40-2 2.2 M (their papers), ResNet-50 25,557,032 (torchvision).
SIZES = {
    ("wrn28-10", 10): 36_479_194,
    ("resnet50", 1000): 25_557_032,
    ("wrn40-2", 10): 2_243_546,
}
FEATURES = {  # the widths of the papers
    "wrn10-1": 64,
    "wrn16-2": 128,
    "wrn28-10": 640,
    "wrn40-2": 128,
    "resnet26-gn": 256,  # 64 times 4
    "vit-small-32": 256,
    "wrn28-1-gn": 64,
    "vit-tiny-32": 96,
    "resnext29-4x32d": 1024,
    "resnet18-64": 512,
    "resnet50": 2048,
    "resnet50-domainnet126": 256,
}
NORM_LAYERS = {"wrn28-10": 25, "resnext29-4x32d": 31, "resnet50": 53, "resnet50-domainnet126": 54}


def norms(model):
    return [m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]


@pytest.mark.parametrize("name", sorted(set(models.MODELS) - {"wrn28-10"}))
def test_every_model_gives_finite_logits_for_any_number_of_classes(name):
    model = models.build(name, num_classes=7).eval()
    side = SIDES.get(name, 32)
    with torch.no_grad():
        logits = model(torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0)))
    assert logits.shape == (2, 7)
    assert torch.isfinite(logits).all()
    assert logits.std() > 0


@pytest.mark.parametrize("name", models.MODELS)
def test_the_last_linear_layer_takes_the_published_number_of_features(name):
    head = models.classifier(skeleton(name, 12))
    assert (head.in_features, head.out_features) == (FEATURES[name], 12)


@pytest.mark.parametrize(("name", "count"), NORM_LAYERS.items())
def test_the_number_of_batch_norm_layers_is_the_published_one(name, count):
    assert len(norms(skeleton(name, 10))) == count


@pytest.mark.parametrize(("key", "size"), SIZES.items())
def test_the_number_of_parameters_is_the_published_one(key, size):
    model = skeleton(*key)
    assert sum(p.numel() for p in model.parameters()) == size


def test_wrn10_1_needs_the_promised_multiply_adds():
    counted = []

    def count(module, inputs, output):
        per_value = module.weight[0].numel()
        counted.append(output[0].numel() * per_value)

    model = models.build("wrn10-1", 100)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    model(torch.zeros(1, 3, 32, 32))
    assert sum(counted) / 1e6 == pytest.approx(12.5, abs=0.5)


def test_normalisation_is_the_first_step_and_outside_the_state_dict():
    plain = models.build("wrn10-1", 10, mean=(0, 0, 0), std=(1, 1, 1)).eval()
    shifted = models.build("wrn10-1", 10, mean=(0.2, 0.4, 0.6), std=(0.5, 0.25, 2.0)).eval()
    images = torch.rand(3, 3, 32, 32)
    by_hand = torch.stack(
        [(images[:, 0] - 0.2) / 0.5, (images[:, 1] - 0.4) / 0.25, (images[:, 2] - 0.6) / 2.0], dim=1
    )
    assert torch.allclose(shifted(images), plain(by_hand), atol=1e-5)
    assert not any("mean" in name and "running" not in name for name in plain.state_dict())


def test_the_published_normalisation_is_the_default():
    assert models.build("wrn28-10", 10).normalise.mean.flatten().tolist() == [0.0] * 3
    assert models.build("wrn40-2", 10).normalise.std.flatten().tolist() == [0.5] * 3
    mean = models.build("resnet18-64", 200).normalise.mean.flatten()
    assert mean.tolist() == pytest.approx([0.485, 0.456, 0.406])


def test_the_seed_decides_the_weights_and_global_state_is_left_alone():
    before = torch.get_rng_state()
    one, same, other = (models.build("wrn10-1", 10, seed=s) for s in (1, 1, 2))
    assert torch.equal(one.fc.weight, same.fc.weight)
    assert torch.equal(one.conv1.weight, same.conv1.weight)
    assert not torch.equal(one.conv1.weight, other.conv1.weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_weight_normalised_head_has_rows_of_the_stored_length_and_can_be_copied():
    model = models.build("resnet50-domainnet126", 5)
    with torch.no_grad():
        model.fc.weight_g.copy_(torch.arange(1.0, 6.0).view(5, 1))
    features = torch.rand(2, 256)
    reference = nn.utils.parametrizations.weight_norm(nn.Linear(256, 5))
    with torch.no_grad():
        reference.parametrizations.weight.original0.copy_(model.fc.weight_g)
        reference.parametrizations.weight.original1.copy_(model.fc.weight_v)
        reference.bias.copy_(model.fc.bias)
    assert torch.allclose(model.fc(features), reference(features), atol=1e-6)
    assert model.fc.weight.norm(dim=1).tolist() == pytest.approx([1, 2, 3, 4, 5], abs=1e-5)
    copied = copy.deepcopy(model.fc)  # after a forward pass
    assert torch.equal(copied(features), model.fc(features))


def test_the_domainnet_names_are_those_of_the_released_checkpoints():
    names = set(skeleton("resnet50-domainnet126", 126).state_dict())
    assert {"encoder.0.conv1.weight", "encoder.0.layer4.2.bn3.running_var"} <= names
    assert {"encoder.0.fc.weight", "encoder.0.fc.bias", "encoder.1.running_mean"} <= names
    assert {n for n in names if n.startswith("fc.")} == {"fc.weight_g", "fc.weight_v", "fc.bias"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.build("wrn10", 10), "unknown model 'wrn10'; did you mean 'wrn10-1'?"),
        (lambda: models.build("wrn10-1", 1), "num_classes must be at least 2, got 1"),
        (lambda: models.build("wrn10-1", 9, mean=(0.5,)), "3 numbers each, got 1 and 3"),
        (lambda: models.build("wrn10-1", 9, std=(1, 0, 1)), "std must be positive"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=".*") as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_groupnorm_and_layernorm_models_have_no_other_normalisation():
    kinds = (nn.GroupNorm, nn.LayerNorm)
    found = {
        name: [type(m) for m in skeleton(name, 10).modules() if isinstance(m, kinds)]
        for name in ("resnet26-gn", "vit-small-32")
    }
    assert found == {"resnet26-gn": [nn.GroupNorm] * 25, "vit-small-32": [nn.LayerNorm] * 15}
    assert not any(norms(skeleton(name, 10)) for name in found)


def test_resnet26_has_26_layers_as_he_et_al_count_them():
    layers = [m for m in skeleton("resnet26-gn", 10).modules() if isinstance(m, nn.Conv2d)]
    assert sum(layer.kernel_size == (3, 3) for layer in layers) + 1 == 26  # and the last, linear


def test_the_transformer_is_the_same_function_as_torchs_own_layers():
    """Attention, order of the norms and pooling against ``nn.TransformerEncoderLayer``."""
    torch.manual_seed(0)
    model = models.build("vit-small-32", 10, mean=(0, 0, 0), std=(1, 1, 1)).eval()
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for block in model.blocks:  # which a new model leaves at zero
            nn.init.normal_(block.proj.weight, std=0.06)
            nn.init.normal_(block.fc2.weight, std=0.06)
        x = model.stem(images).flatten(2).transpose(1, 2) + model.positions
        for block in model.blocks:
            layer = nn.TransformerEncoderLayer(
                256, 4, 512, 0.0, nn.functional.gelu, batch_first=True, norm_first=True
            ).eval()
            layer.self_attn.in_proj_weight.copy_(block.qkv.weight)
            layer.self_attn.in_proj_bias.copy_(block.qkv.bias)
            pairs = ("self_attn.out_proj", "proj"), ("linear1", "fc1"), ("linear2", "fc2")
            for theirs, ours in (*pairs, ("norm1", "norm1"), ("norm2", "norm2")):
                layer.get_submodule(theirs).load_state_dict(getattr(block, ours).state_dict())
            x = layer(x)
        expected = model.fc(model.norm(x).mean(dim=1))
        assert torch.allclose(model(images), expected, atol=1e-5)


def test_a_new_transformer_lets_the_stem_through():
    model = models.build("vit-small-32", 10, mean=(0.5,) * 3, std=(0.25,) * 3).eval()
    images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        tokens = model.stem(model.normalise(images)).flatten(2).transpose(1, 2)
        assert 0.3 < float(tokens.std()) < 3
        assert torch.equal(model.blocks(tokens), tokens)


def test_the_transformer_says_which_size_it_takes():
    with pytest.raises(ValueError, match="takes images of 32 x 32 pixels, got 64 x 64; scale"):
        models.build("vit-small-32", 10)(torch.zeros(1, 3, 64, 64))


def test_available_lists_the_table():
    assert models.available() == sorted(models.MODELS)


class Outside(nn.Module):
    """A network as another package would bring it: layers that ours do not use, and a bias."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.normalise = models.Normalise()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)
        self.fc = nn.Linear(4, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.conv(self.normalise(images))).mean(dim=(2, 3)))


def test_a_network_from_outside_is_filled_completely(monkeypatch):
    monkeypatch.setitem(models.MODELS, "outside", models.Architecture(Outside))
    one, other = (models.build("outside", 7, seed=3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert one.conv.bias.tolist() == [0.0] * 4
    assert one.norm.weight.tolist() == [1.0] * 4
    assert one(torch.rand(2, 3, 8, 8)).isfinite().all()


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"normalise": nn.Identity()}, "must have a multipool.models.Normalise called normalise"),
        ({"scale": nn.ParameterList([nn.Parameter(torch.ones(1))])}, "must have reset_parameters"),
    ],
)
def test_a_network_from_outside_that_cannot_be_filled_is_refused(monkeypatch, extra, sentence):
    def make(num_classes: int) -> nn.Module:
        network = Outside(num_classes)
        for name, module in extra.items():
            setattr(network, name, module)
        return network

    monkeypatch.setitem(models.MODELS, "outside", models.Architecture(make))
    with pytest.raises(ValueError, match=sentence):
        models.build("outside", 7)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_models_tell_the_side_of_the_images_that_they_are_made_for(name):
    side = {"resnet18-64": 64}.get(name, 224 if name.startswith("resnet50") else 32)
    assert with_normalisation(skeleton(name, 10), name).size == side


def test_pictures_in_folders_get_the_size_of_the_model(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "day" / name).mkdir(parents=True)
        Image.new("RGB", (40, 50)).save(tmp_path / "day" / name / "0.png")
    experiment = Experiment(
        dataset="folder", data_dir=str(tmp_path), weights="shapes-wrn10-1", device="cpu",
        classes=str(tmp_path / "classes.txt"),
    )  # fmt: skip
    (tmp_path / "classes.txt").write_text("3 ant\n5 bee\n")
    assert Loader().both(experiment, torch.device("cpu")).dataset.size == 32


@pytest.mark.parametrize("number", ["5", 2.5, True, 1, None])
def test_what_is_no_number_of_classes_is_a_sentence(number):
    with pytest.raises(ValueError, match=f"num_classes must be at least 2, got {number!r}"):
        models.build("wrn10-1", number)


def test_what_a_package_makes_must_be_a_module(monkeypatch):
    monkeypatch.setitem(models.MODELS, "odd", models.Architecture(lambda num_classes: num_classes))
    with pytest.raises(ValueError, match=r"model 'odd' must be a torch.nn.Module, got int"):
        models.build("odd", num_classes=5)
