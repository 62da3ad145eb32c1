"""Hugging Face's image classifiers as they come: their outputs, and layers of their own classes."""

import copy

import pytest
import torch

from multipool.methods import adapt, load
from multipool.models import Normalised

pytest.importorskip("transformers", reason="transformers is in the extra 'dev'")
from transformers import (  # noqa: E402
    ConvNextConfig,
    ConvNextForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

HALF = (0.5, 0.5, 0.5)


def vit():
    torch.manual_seed(0)
    small = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    return ViTForImageClassification(
        ViTConfig(image_size=8, patch_size=4, num_labels=5, initializer_range=0.5, **small)
    ).eval()


def convnext():
    torch.manual_seed(0)
    config = ConvNextConfig(
        hidden_sizes=[4, 6, 8, 8], depths=[1, 1, 1, 1], patch_size=1, num_labels=5,
        initializer_range=0.5, layer_scale_init_value=0.5,
    )  # fmt: skip
    return ConvNextForImageClassification(config).eval()


MODELS = {"vit": vit, "convnext": convnext}
each_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def norm_parameters(model):
    """Return the parameters of all modules that call themselves a norm."""
    norms = [m for m in model.modules() if "LayerNorm" in type(m).__name__]
    return [p for module in norms for p in module.parameters(recurse=False)]


@each_model
def test_every_layer_of_its_own_class_is_found_and_nothing_else(make):
    model = make()
    adapter = adapt(Normalised(model, HALF, HALF), "tent")
    wanted = sum(p.numel() for p in norm_parameters(model))
    assert len(adapter.network.source.affine) == wanted
    assert set(adapter.network.kinds) == {"LayerNorm"}


@each_model
def test_three_steps_of_tent_are_those_of_its_definition(make, make_images):
    model = Normalised(make(), HALF, HALF)
    adapter = adapt(model, "tent", guard=False)
    net = copy.deepcopy(model).requires_grad_(False)
    trained = [p.requires_grad_() for p in norm_parameters(net)]
    optimizer = torch.optim.Adam(trained, lr=1e-3)
    start = torch.cat([p.detach().flatten().clone() for p in trained])
    for t in range(3):
        x = make_images(16, seed=t)
        z = net.model(net.normalise(x)).logits
        torch.testing.assert_close(adapter(x), z.detach(), rtol=1e-3, atol=1e-3)
        p = z.softmax(1)
        optimizer.zero_grad()
        (-(p * z.log_softmax(1)).sum(1).mean()).backward()
        optimizer.step()
    now = torch.cat([p.detach().flatten() for p in trained])
    assert (now - start).abs().max() > 1e-3


@each_model
@pytest.mark.parametrize("method", ["rotta", "cotta", "neo", "multipool"])
def test_a_saved_adapter_goes_on_bit_for_bit(make, method, make_images, tmp_path):
    model = Normalised(make(), HALF, HALF)
    options = {"views": 2} if method == "cotta" else {}
    adapter = adapt(model, method, options=options)
    adapter(make_images(64))
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", model)
    x = make_images(64, seed=1)
    assert torch.equal(adapter(x), again(x))


@each_model
def test_a_method_for_batchnorm_names_those_that_work(make):
    with pytest.raises(ValueError, match="'bn' adapts BatchNorm .* LayerNorm only; .*: multipool"):
        adapt(Normalised(make(), HALF, HALF), "bn")


@each_model
def test_a_model_output_is_read_and_the_missing_normalisation_is_said(make, make_images, caplog):
    model, x = make(), make_images(8)
    with torch.no_grad():
        torch.testing.assert_close(adapt(model, "source")(x), model(x).logits)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "is a model of transformers" in message
