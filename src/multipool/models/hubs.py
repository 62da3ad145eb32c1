"""Trained models of other packages, where those are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Protocol

from torch import nn

from multipool.models.normalise import IMAGENET_MEAN, IMAGENET_STD, Normalised

_ROBUSTBENCH = {None: "cifar10", 10: "cifar10", 100: "cifar100", 1000: "imagenet"}


def from_timm(name: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
    """Return timm's ``name`` behind its own normalisation."""
    timm = _package("timm")
    classes = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    model = _ask("timm", name, lambda: timm.create_model(name, pretrained=pretrained, **classes))
    config = timm.data.resolve_model_data_config(model)
    return Normalised(model, config["mean"], config["std"])


def from_torchvision(name: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
    """Return torchvision's ``name`` behind ImageNet's normalisation.

    The weights are ``IMAGENET1K_V1``, those of the published tables; ``NAME:IMAGENET1K_V2``
    asks for others.
    """
    name, _, weights = name.partition(":")
    models = _package("torchvision").models
    chosen = (weights or "IMAGENET1K_V1") if pretrained else None
    classes = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    model = _ask("torchvision", name, lambda: models.get_model(name, weights=chosen, **classes))
    return Normalised(model, IMAGENET_MEAN, IMAGENET_STD)


def from_robustbench(name: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
    """Return RobustBench's ``name`` for common corruptions; it normalises by itself.

    ``DATASET/NAME`` says the dataset; else the number of classes does (CIFAR-10 by default).
    """
    if not pretrained:
        raise ValueError(f"robustbench:{name} comes with its weights; leave out the file of others")
    dataset, _, model = name.rpartition("/")
    if not dataset and num_classes not in _ROBUSTBENCH:
        raise ValueError(
            f"RobustBench has no dataset with {num_classes} classes; use robustbench:DATASET/{name}"
        )
    dataset = dataset or _ROBUSTBENCH[num_classes]
    utils = _package("robustbench", "robustbench.utils")
    return _ask(
        "robustbench",
        name,
        lambda: utils.load_model(model, dataset=dataset, threat_model="corruptions"),
    )


class Hub(Protocol):
    """Gives a model by its name there; not ``pretrained`` one for so many classes, to be filled."""

    def __call__(self, name: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
        """Return the model behind its normalisation."""


HUBS: dict[str, Hub] = {
    "timm": from_timm,
    "torchvision": from_torchvision,
    "robustbench": from_robustbench,
}


def _package(extra: str, module: str | None = None) -> ModuleType:
    """Return an optional package, or say which extra installs it."""
    try:
        return importlib.import_module(module or extra)
    except ImportError:
        raise ValueError(
            f"'{extra}:' models need the package {extra}; install it with "
            f"pip install 'multipool[{extra}]'"
        ) from None


def _ask(package: str, name: str, make: Callable[[], nn.Module]) -> nn.Module:
    """Return what the package makes; whatever goes wrong in there becomes one sentence."""
    try:
        return make()
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{package} could not give the model '{name}': {reason}") from None
