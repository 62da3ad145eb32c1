"""The converter of Keras' ResNet-50: random weights of its layout, one block a stage."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from multipool import models
from multipool.core import write_tensors
from multipool.models.resnet import Bottleneck, ResNet

FILE = Path(__file__).parents[2] / "examples" / "imagenet" / "resnet50.py"
_spec = importlib.util.spec_from_file_location("resnet50_example", FILE)
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)
CLASSES, MEAN = 7, (103.939, 116.779, 123.68)  # of blue, green, red


@pytest.fixture(scope="module")
def arrays():
    """Return arrays by Keras' names, for stages of one block."""
    rng = np.random.default_rng(0)
    found = {}

    def layer(conv, norm, side, width_in, width):
        scale = (2 / (side * side * width_in)) ** 0.5
        shape = (side, side, width_in, width)
        found[f"{conv}/kernel"] = rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        found[f"{conv}/bias"] = rng.standard_normal(width, dtype=np.float32)
        for name in ("gamma", "moving_variance"):
            found[f"{norm}/{name}"] = rng.random(width, dtype=np.float32) + np.float32(0.5)
        for name in ("beta", "moving_mean"):
            found[f"{norm}/{name}"] = rng.standard_normal(width, dtype=np.float32)

    layer("conv1", "bn_conv1", 7, 3, 64)
    width_in = 64
    for stage, width in enumerate((64, 128, 256, 512), start=2):
        for branch, side, a, b in (
            ("2a", 1, width_in, width),
            ("2b", 3, width, width),
            ("2c", 1, width, 4 * width),
            ("1", 1, width_in, 4 * width),
        ):
            layer(f"res{stage}a_branch{branch}", f"bn{stage}a_branch{branch}", side, a, b)
        width_in = 4 * width
    found["fc1000/kernel"] = rng.standard_normal((2048, CLASSES), dtype=np.float32) / 50
    found["fc1000/bias"] = rng.standard_normal(CLASSES, dtype=np.float32)
    return found


def as_keras(arrays, images):
    """Return logits as Keras computes them, layer by layer, of RGB images in [0, 1]."""

    def conv(x, name, stride=1, padding=0):
        kernel = torch.from_numpy(arrays[f"{name}/kernel"].transpose(3, 2, 0, 1).copy())
        return F.conv2d(x, kernel, torch.from_numpy(arrays[f"{name}/bias"]), stride, padding)

    def norm(x, name):
        parts = ("moving_mean", "moving_variance", "gamma", "beta")
        return F.batch_norm(x, *(torch.from_numpy(arrays[f"{name}/{p}"]) for p in parts), eps=1e-3)

    x = images.flip(1) * 255 - torch.tensor(MEAN).view(1, 3, 1, 1)
    x = norm(conv(x, "conv1", 2, 3), "bn_conv1").relu()
    x = F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2)
    for stage in range(2, 6):
        stride = 1 if stage == 2 else 2
        name = f"{stage}a_branch"
        y = norm(conv(x, f"res{name}2a", stride), f"bn{name}2a").relu()
        y = norm(conv(y, f"res{name}2b", 1, 1), f"bn{name}2b").relu()
        y = norm(conv(y, f"res{name}2c"), f"bn{name}2c")
        x = (y + norm(conv(x, f"res{name}1", stride), f"bn{name}1")).relu()
    kernel, bias = (torch.from_numpy(arrays[f"fc1000/{part}"]) for part in ("kernel", "bias"))
    return x.mean((2, 3)) @ kernel + bias


def test_the_converted_network_answers_as_keras_does(arrays, monkeypatch):
    monkeypatch.setattr(example, "DEPTHS", (1, 1, 1, 1))
    model = ResNet(CLASSES, Bottleneck, (1, 1, 1, 1))
    model.normalise = models.Normalise(example.MEAN, example.STD)
    example.like_keras(model).load_state_dict(example.convert(arrays))
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours, theirs = model.eval()(images), as_keras(arrays, images)
    assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(theirs.abs().max()))
    assert float(theirs.std()) > 0.1


def test_a_package_is_read_from_its_files(arrays, tmp_path):
    chosen = {name: arrays[name] for name in ("bn_conv1/gamma", "conv1/kernel")}
    content = b"".join(array.tobytes() for array in chosen.values())
    (tmp_path / "one.bin").write_bytes(content[:1000])
    (tmp_path / "two.bin").write_bytes(content[1000:])
    entries = [
        {"name": name, "shape": list(array.shape), "dtype": "float32"}
        for name, array in chosen.items()
    ]
    manifest = {"weightsManifest": [{"paths": ["one.bin", "two.bin"], "weights": entries}]}
    (tmp_path / "model.json").write_text(json.dumps(manifest))
    found = example.read_package(tmp_path)
    assert all(np.array_equal(found[name], array) for name, array in chosen.items())
    (tmp_path / "two.bin").write_bytes(content[1000:-4])
    with pytest.raises(ValueError, match="end within conv1/kernel"):
        example.read_package(tmp_path)


def test_strides_and_batch_norms_are_keras_own():
    model = example.like_keras(ResNet(CLASSES, Bottleneck, (1, 1, 1, 1)))
    assert model.layer2[0].conv1.stride == model.layer2[0].downsample[0].stride == (2, 2)
    assert model.layer2[0].conv2.stride == model.layer1[0].conv1.stride == (1, 1)
    assert {m.eps for m in model.modules() if isinstance(m, nn.BatchNorm2d)} == {1e-3}


def test_half_precision_is_for_kernels_and_not_for_batch_norms(arrays, monkeypatch):
    monkeypatch.setattr(example, "DEPTHS", (1, 1, 1, 1))
    whole = example.convert(arrays)
    whole["bn1.running_var"] += 80_000.0  # more than half precision can hold
    short = example.kernels_in_half(whole)
    assert {t.dtype for t in short.values() if t.ndim > 1} == {torch.float16}
    assert torch.equal(short["bn1.running_var"], whole["bn1.running_var"])
    assert torch.allclose(short["fc.weight"].float(), whole["fc.weight"], rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_the_command_line_takes_the_factory_and_a_file(tmp_path):
    made = example.factory(5)
    write_tensors(tmp_path / "w.safetensors", made.state_dict())
    loaded = models.load(tmp_path / "w.safetensors", architecture=f"{FILE}:factory")
    assert loaded.fc.out_features == 5
    assert loaded.layer3[0].conv1.stride == (2, 2)
