"""Models of other packages, where those are installed, and of the user's own Python files."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from torch import nn

from multipool.core import brief
from multipool.models.normalise import Normalised
from multipool.models.own_file import from_file, is_own

_ROBUSTBENCH = {None: "cifar10", 10: "cifar10", 100: "cifar100", 1000: "imagenet"}


def from_timm(name: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
    """Return timm's ``name`` behind the normalisation of its ``pretrained_cfg``."""
    timm = _package("timm")
    classes = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    model = _ask("timm", name, lambda: timm.create_model(name, pretrained=pretrained, **classes))
    config = timm.data.resolve_model_data_config(model)
    size = config["input_size"][-1]
    return Normalised(model, config["mean"], config["std"], size, "timm's configuration")


def from_torchvision(name: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
    """Return torchvision's ``name`` behind the normalisation of its weights' own transforms.

    The weights are ``IMAGENET1K_V1``, those of the published tables, where there are such;
    ``NAME:IMAGENET1K_V2`` asks for others.
    """
    name, _, wanted = name.partition(":")
    models = _package("torchvision").models
    known = _ask("torchvision", name, lambda: models.get_model_weights(name))
    usual = "IMAGENET1K_V1" if "IMAGENET1K_V1" in known.__members__ else "DEFAULT"
    weights = _ask("torchvision", name, lambda: known[wanted or usual])
    classes = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    chosen = weights if pretrained else None
    model = _ask("torchvision", name, lambda: models.get_model(name, weights=chosen, **classes))
    shown = weights.transforms()
    size = shown.crop_size[-1]
    return Normalised(model, shown.mean, shown.std, size, "torchvision's transforms")


def from_hugging_face(name: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
    """Return an image classifier of transformers, by its name on the hub or its folder."""
    transformers = _package("hf", "transformers")
    auto = _ask("hf", name, lambda: transformers.AutoModelForImageClassification)
    if pretrained:
        model = _ask("hf", name, lambda: auto.from_pretrained(name))
    else:
        config = _ask("hf", name, lambda: transformers.AutoConfig.from_pretrained(name))
        if num_classes is not None:
            config.num_labels = num_classes
        model = _ask("hf", name, lambda: auto.from_config(config))
    reader = importlib.import_module("transformers.image_processing_base").ImageProcessingMixin
    shown = _ask("hf", name, lambda: reader.get_image_processor_dict(name)[0])
    if not shown.get("do_normalize", True):
        return Normalised(model, (0.0,) * 3, (1.0,) * 3, _side(shown), "its processor's file")
    mean, std = shown.get("image_mean"), shown.get("image_std")
    if mean is None or std is None:
        raise ValueError(
            f"hf:{name} has no image_mean and image_std in its preprocessor_config.json; "
            "load it yourself and pass it through multipool.models.wrap(model, mean, std)"
        )
    return Normalised(model, mean, std, _side(shown), "its processor's file")


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
    "hf": from_hugging_face,
    "robustbench": from_robustbench,
}
# How a model from elsewhere is named, for sentences and help.
SPELLINGS = (*(f"{hub}:NAME" for hub in HUBS), "FILE.py:FUNCTION")


def is_foreign(source: str) -> bool:
    """Return whether a name means a model from elsewhere.

    >>> is_foreign("timm:resnet50"), is_foreign("nets/mine.py:make"), is_foreign("wrn10-1")
    (True, True, False)
    """
    return is_own(source) or bool(source.partition(":")[2] and source.partition(":")[0] in HUBS)


def foreign(source: str, num_classes: int | None, pretrained: bool = True) -> nn.Module:
    """Return the model from elsewhere that ``source`` names (see :func:`is_foreign`)."""
    if is_own(source):
        return from_file(source, num_classes)
    hub, _, name = source.partition(":")
    return HUBS[hub](name, num_classes, pretrained)


def _side(shown: dict[str, Any]) -> int | None:
    """Return the side in pixels that a processor's file names, in one of its spellings."""
    crop = shown.get("crop_size") if shown.get("do_center_crop") else None
    size = crop or shown.get("size")
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    return size if isinstance(size, int) else None


def _package(extra: str, module: str | None = None) -> ModuleType:
    """Return an optional package, or say which extra installs it."""
    name = module or extra
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != name.split(".")[0]:
            raise _broken(extra, name, error) from None
        raise ValueError(
            f"'{extra}:' models need the package {name.split('.')[0]}; install it with "
            f"pip install 'multipool[{extra}]'"
        ) from None
    except RuntimeError as error:  # torchvision beside a torch that it was not built for
        raise _broken(extra, name, error) from None


def _broken(extra: str, name: str, error: Exception) -> ValueError:
    return ValueError(
        f"'{extra}:' models need {name}, which is installed but does not import ({brief(error)}); "
        "install the torchvision that was built for this torch: https://pytorch.org/get-started"
    )


def _ask(package: str, name: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Return what the package makes; whatever goes wrong in there becomes one sentence."""
    try:
        return make()
    except Exception as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise ValueError(f"{package} could not give the model '{name}': {reason[0]}") from None
