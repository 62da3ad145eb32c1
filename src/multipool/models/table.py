"""The architectures by name, and the trained weights that come with the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path

import torch
from torch import nn

from multipool.core import Table, lookup, torch_generator
from multipool.models.normalise import HALF, IMAGENET_MEAN, IMAGENET_STD, ONE, ZERO, Normalise
from multipool.models.resnet import (
    BasicBlock,
    Bottleneck,
    DomainNetResNet50,
    ResNet,
    WeightNormLinear,
)
from multipool.models.resnext import ResNeXt29
from multipool.models.vit import VisionTransformer
from multipool.models.wide import WideResNet


@dataclass(frozen=True)
class Architecture:
    """How to make a network for a number of classes, and its published normalisation.

    Args:
        make: from the number of classes to a network; it applies its own ``normalise`` first.
        mean: of the images in [0, 1] that it is trained on, one number a channel.
        std: likewise.
        head: name of the last layer, an ``nn.Linear``, which tells the number of classes.
        size: side in pixels of the images that it is made for, where that is known; a model of
            this architecture tells it as ``model.size``.
    """

    make: Callable[[int], nn.Module]
    mean: tuple[float, ...] = HALF
    std: tuple[float, ...] = HALF
    head: str = "fc"
    size: int | None = None


BUILT_IN: dict[str, Architecture] = {
    "wrn10-1": Architecture(partial(WideResNet, depth=10, widen=1), size=32),
    "wrn16-2": Architecture(partial(WideResNet, depth=16, widen=2), size=32),
    "wrn28-10": Architecture(partial(WideResNet, depth=28, widen=10), ZERO, ONE, size=32),
    "wrn40-2": Architecture(partial(WideResNet, depth=40, widen=2), size=32),
    # 26 layers as He et al. count them; the wide networks' own count includes the shortcuts.
    "resnet26-gn": Architecture(partial(WideResNet, depth=28, widen=4, groups=8), size=32),
    "wrn28-1-gn": Architecture(partial(WideResNet, depth=28, widen=1, groups=8), size=32),
    "vit-tiny-32": Architecture(partial(VisionTransformer, width=96, depth=5, heads=3), size=32),
    "vit-small-32": Architecture(VisionTransformer, size=32),
    "resnext29-4x32d": Architecture(ResNeXt29, head="classifier", size=32),
    "resnet18-64": Architecture(
        partial(ResNet, block=BasicBlock, depths=(2, 2, 2, 2), small=True),
        IMAGENET_MEAN,
        IMAGENET_STD,
        size=64,
    ),
    "resnet50": Architecture(
        partial(ResNet, block=Bottleneck, depths=(3, 4, 6, 3)),
        IMAGENET_MEAN,
        IMAGENET_STD,
        size=224,
    ),
    "resnet50-domainnet126": Architecture(DomainNetResNet50, IMAGENET_MEAN, IMAGENET_STD, size=224),
}


def _architecture(name: str, found: object) -> Architecture:
    """Return the architecture that an entry point names: itself, or what makes the network."""
    if isinstance(found, Architecture):
        return found
    if not callable(found):
        raise ValueError(
            "a model must be a multipool.models.Architecture or a function from the number of "
            f"classes to a network, got {type(found).__name__}"
        )
    return Architecture(found)


MODELS: Table[Architecture] = Table("model", "multipool.models", BUILT_IN, _architecture)

_WEIGHTS = Path(__file__).parent / "weights"
SHIPPED: dict[str, Path] = {
    name: _WEIGHTS / f"{name.replace('-', '_')}.safetensors"
    for name in (
        "shapes-wrn10-1",
        "cifar10-wrn28-1-gn",
        "cifar10-vit-tiny-32",
        "cifar100-wrn28-1-gn",
        "cifar100-vit-tiny-32",
    )
}


def available() -> list[str]:
    """Return the names of all architectures, sorted."""
    return sorted(MODELS)


def build(
    name: str,
    num_classes: int,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    seed: int = 0,
) -> nn.Module:
    """Return an untrained model that takes images in [0, 1]; the same seed, the same weights.

    Args:
        name: the architecture, a key of ``MODELS``.
        num_classes: L, the width of the last layer.
        mean: of the images that it is trained on, one number a channel; None: the published one.
        std: likewise.
        seed: of the weights.

    >>> build("wrn10-1", num_classes=100)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    model = skeleton(name, num_classes).to_empty(device="cpu")
    _initialise(model, torch_generator(seed))
    return with_normalisation(model, name, mean, std)


def skeleton(name: str, num_classes: int) -> nn.Module:
    """Return the architecture without values (on the meta device), ready for weights."""
    entry = lookup(MODELS, name, "model")
    if not isinstance(num_classes, Integral) or isinstance(num_classes, bool) or num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes!r}")
    with torch.device("meta"):  # draws no random numbers and fills no memory
        made = entry.make(num_classes)
    if not isinstance(made, nn.Module):
        raise ValueError(f"model '{name}' must be a torch.nn.Module, got {type(made).__name__}")
    return made


def with_normalisation(
    model: nn.Module,
    name: str,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> nn.Module:
    """Return the model with its first step set, as given or as published, and its ``size`` told."""
    entry = lookup(MODELS, name, "model")
    if not isinstance(getattr(model, "normalise", None), Normalise):
        raise ValueError(
            f"model '{name}' must have a multipool.models.Normalise called normalise and apply it "
            "to its input first"
        )
    model.normalise = Normalise(
        entry.mean if mean is None else mean, entry.std if std is None else std
    )
    vars(model)["size"] = entry.size  # no parameter: told, not saved
    return model


def _initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Fill every layer in place: He's normal for convolutions, a small uniform for the head."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(
                module.weight, mode="fan_out", nonlinearity="relu", generator=generator
            )
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, VisionTransformer):
            continue  # its own parameters are filled below, when its layers are
        elif isinstance(module, WeightNormLinear):
            _uniform(module.weight_v, module.in_features, generator)
            with torch.no_grad():
                module.weight_g.copy_(module.weight_v.norm(dim=1, keepdim=True))
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            _uniform(module.weight, module.in_features, generator)
            nn.init.zeros_(module.bias)
        elif [*module.parameters(recurse=False), *_saved_buffers(module)]:
            _reset(module)
    if isinstance(model, VisionTransformer):
        model.initialise(generator)


def _saved_buffers(module: nn.Module) -> list[torch.Tensor]:
    own = dict(module.named_buffers(recurse=False))
    return [own[name] for name in own if name not in module._non_persistent_buffers_set]


def _reset(module: nn.Module) -> None:
    """Fill a layer of a kind that only other packages use, by its own rule."""
    reset = getattr(module, "reset_parameters", None)
    if not callable(reset):
        raise ValueError(
            f"a model's layer {type(module).__name__} must have reset_parameters(), "
            "as torch's own layers do"
        )
    reset()


def _uniform(weight: torch.Tensor, fan_in: int, generator: torch.Generator) -> None:
    """Fill ``weight`` in place, uniform within 1 / sqrt(fan_in) of zero."""
    bound = fan_in**-0.5
    nn.init.uniform_(weight, -bound, bound, generator=generator)
