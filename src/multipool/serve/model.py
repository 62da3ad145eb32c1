"""The model that is served: its weights, the size of its images and the names of its classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from multipool import models
from multipool.engine.setup import AUTO
from multipool.methods import share
from multipool.ops import Network
from multipool.ops.device import resolve
from multipool.serve.card import ModelCard

EMBEDDED = "shapes-wrn10-1"


@dataclass(frozen=True)
class ModelChoice:
    """How a user names a model: an architecture or hub model, a file of weights, and the rest."""

    model: str | None = None
    weights: str | None = None
    image_size: int | None = None
    classes: Path | None = None  # a file with one name a line
    name: str | None = None  # in addresses; left out: the file's or the model's
    precision: str = "auto"
    device: str = "auto"


def read_model(choice: ModelChoice, method: str) -> tuple[Network, ModelCard]:
    """Return the frozen model on its device, and what clients are told about it."""
    _check(choice)
    source = choice.weights or choice.model or EMBEDDED
    architecture = choice.model if choice.weights is not None else None
    model = models.load(source, architecture=architecture).to(resolve(choice.device))
    # Streams replay no graphs and so have no fused kernels, with which alone float16 was measured.
    precision = "float32" if choice.precision == AUTO else choice.precision
    network = share(model, precision=precision)
    assert network.num_classes is not None  # share has found it
    side = choice.image_size or getattr(model, "size", None)
    if side is None:
        raise ValueError(f"say --image-size N: '{source}' does not tell the side of its images")
    size = (_channels(model), side, side)
    name = choice.name or re.sub(r"[^A-Za-z0-9._-]+", "-", Path(source).stem.replace(":", "-"))
    names = _class_names(choice, source, network.num_classes)
    return network, ModelCard(name, size, names, method)


def _check(choice: ModelChoice) -> None:
    """Refuse a size that no image has, and a name that no address can hold."""
    if choice.image_size is not None and choice.image_size < 1:
        raise ValueError(f"--image-size must be at least 1, got {choice.image_size}")
    if choice.name is not None and not re.fullmatch(r"[A-Za-z0-9._-]+", choice.name):
        raise ValueError(
            f"--name must be letters, digits or '._-', for addresses, got {choice.name!r}"
        )


def _channels(model: torch.nn.Module) -> int:
    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
    return convolutions[0].in_channels if convolutions else 3


def _class_names(choice: ModelChoice, source: str, count: int) -> tuple[str, ...]:
    if choice.classes is not None:
        try:
            lines = choice.classes.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise FileNotFoundError(
                f"no readable list of classes at {choice.classes}; it must be a text file, one "
                "class a line"
            ) from None
        if len(lines) != count:
            raise ValueError(f"{choice.classes} has {len(lines)} lines, the model {count} classes")
        return tuple(lines)
    if source == EMBEDDED:
        from multipool.data.shapes import class_names

        return class_names()
    return tuple(f"class {index}" for index in range(count))
