"""Models from files, by the file alone where it says what it is, and back to files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor, nn

from multipool.core import brief, lookup, read_tensors, unknown, write_tensors
from multipool.models.batchnorm import put_in_stored
from multipool.models.hubs import SPELLINGS, foreign, is_foreign
from multipool.models.normalise import Normalise, Normalised
from multipool.models.pickled import look_through
from multipool.models.recognise import recognise, take_normalisation, with_counters
from multipool.models.table import MODELS, SHIPPED, skeleton, with_normalisation

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
_PREFIXES = ("module.", "model.")


def load(
    source: str | Path, num_classes: int | None = None, architecture: str | None = None
) -> nn.Module:
    """Return a trained model, in evaluation mode, that takes images in [0, 1].

    Args:
        source: a file of weights or a name, see below.
        num_classes: checked if given.
        architecture: what a file without metadata is loaded as; left out: the only entry of
            ``MODELS`` with its names and shapes.

    Example:
        >>> import torch
        >>> load("shapes-wrn10-1")(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])

    ``source`` is a ``.safetensors`` file that names its architecture; a state dict (``.pt``,
    ``.pth``, or a file without metadata), of ``MODELS`` or together with an ``architecture`` like
    ``timm:NAME``; a name in ``SHIPPED``; ``timm:NAME``, ``torchvision:NAME``, ``hf:NAME`` (or a
    folder), ``robustbench:NAME`` where that package is installed; or ``FILE.py:FUNCTION``, which
    is run. Half-precision files become float32.
    """
    if is_foreign(str(source)):
        model = foreign(str(source), num_classes)
        _check_classes(model, num_classes, str(source))
        return model.eval()
    path = SHIPPED.get(str(source), Path(source))
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        tensors, metadata = read_tensors(path)
    elif suffix in (".pt", ".pth", ".ckpt", ".tar"):
        tensors, metadata = _read_checkpoint(path), {}
    else:
        known = [*SHIPPED, *SPELLINGS, "FILE.safetensors", "FILE.pt"]
        raise unknown("weights", str(source), known)
    if architecture is not None and is_foreign(architecture):
        return _fill(path, tensors, num_classes, architecture).eval()
    return _assemble(path, tensors, metadata, num_classes, architecture).eval()


def save(
    model: nn.Module, path: str | Path, metadata: Mapping[str, str], half: bool = False
) -> None:
    """Write the model to one ``.safetensors`` file that :func:`load` needs nothing else for.

    Args:
        model: of :func:`build` or :func:`load`.
        path: the file to write.
        metadata: must name the ``architecture`` (of ``MODELS``); the number of classes and the
            normalisation are added from the model.
        half: store floats in half precision, but for tensors with numbers that it cannot hold
            (beyond 65,504), which stay as they are.
    """
    lookup(MODELS, metadata.get("architecture", ""), "model")
    step = getattr(model, "normalise", None)
    if not isinstance(step, Normalise):
        raise ValueError(f"{type(model).__name__} is not a model made by models.build or load")
    head = classifier(model)
    known = {
        "num_classes": str(head.out_features),
        "mean": json.dumps([round(v, 7) for v in step.mean.flatten().tolist()]),
        "std": json.dumps([round(v, 7) for v in step.std.flatten().tolist()]),
    }
    tensors = {name: _half(t) if half else t for name, t in model.state_dict().items()}
    write_tensors(path, tensors, {**metadata, **known})


def metadata(source: str | Path) -> dict[str, str]:
    """Return what a ``.safetensors`` file or a name in ``SHIPPED`` says about itself."""
    return read_tensors(SHIPPED.get(str(source), Path(source)))[1]


def classifier(model: nn.Module) -> nn.Linear:
    """Return the model's last linear layer, whose input are the penultimate features."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no linear layer to classify with")
    return layers[-1]


def _assemble(
    path: Path,
    tensors: dict[str, Tensor],
    metadata: Mapping[str, str],
    num_classes: int | None,
    architecture: str | None,
) -> nn.Module:
    """Return the model that the tensors and metadata of ``path`` describe."""
    stored_mean, stored_std = take_normalisation(tensors)
    name = architecture or metadata.get("architecture") or recognise(path, tensors)
    if architecture is None and name not in MODELS:
        known = ", ".join(MODELS)
        raise ValueError(f"{path} is of an unknown architecture, {brief(name)!r}; known: {known}")
    head = f"{lookup(MODELS, name, 'model').head}.bias"
    mean = _numbers(path, metadata, "mean", stored_mean)
    std = _numbers(path, metadata, "std", stored_std)
    if head not in tensors or tensors[head].ndim != 1:
        raise ValueError(f"{path} does not fit {name}: it has no '{head}'")
    found = len(tensors[head])
    if num_classes not in (None, found):
        raise ValueError(f"{path} has {found} classes, expected {num_classes}")
    model = skeleton(name, found)
    put_in_stored(model, tensors)
    tensors = with_counters(model.state_dict(), tensors)
    _check_fit(path, name, model.state_dict(), tensors)
    full = {k: _full(v) for k, v in tensors.items()}
    _check_values(path, model.state_dict(), full)
    model.load_state_dict(full, assign=True)
    return with_normalisation(model, name, mean, std)


def _fill(
    path: Path, tensors: dict[str, Tensor], num_classes: int | None, architecture: str
) -> nn.Module:
    """Return an architecture from elsewhere with the weights of ``path`` in it."""
    model = foreign(architecture, None, pretrained=False)
    inner = _inner(model)
    head = next((key for key, layer in inner.named_modules() if layer is classifier(inner)), "")
    found = len(tensors[f"{head}.weight"]) if f"{head}.weight" in tensors else None
    if found is not None and found != classifier(inner).out_features:
        model = foreign(architecture, found, pretrained=False)
        inner = _inner(model)
    put_in_stored(inner, tensors)
    _check_fit(path, architecture, inner.state_dict(), tensors)
    full = {k: _full(v) for k, v in tensors.items()}
    _check_values(path, inner.state_dict(), full)
    inner.load_state_dict(full)
    _check_classes(model, num_classes, str(path))
    return model


def _inner(model: nn.Module) -> nn.Module:
    """Return the model as it came, whose names a file of weights has."""
    return model.model if isinstance(model, Normalised) else model


def _half(tensor: Tensor) -> Tensor:
    """Return floats in half precision where it can hold them."""
    if not tensor.is_floating_point():
        return tensor
    short = tensor.half()
    return short if short.isfinite().all() else tensor


def _full(tensor: Tensor) -> Tensor:
    """Return floats as float32 and integers as they are."""
    return tensor.float() if tensor.is_floating_point() else tensor


def _numbers(
    path: Path, metadata: Mapping[str, str], key: str, stored: Tensor | None
) -> list[float] | None:
    """Return the normalisation under ``key``: from the metadata, else the tensors, else none."""
    if key not in metadata and stored is None:
        return None
    try:
        given = json.loads(metadata[key]) if key in metadata else _values(stored)
        found = [float(v) for v in given]
    except (ValueError, TypeError, OverflowError, RecursionError):
        found = []
    if len(found) != 3 or not all(map(isfinite, found)) or (key == "std" and min(found) <= 0):
        said = brief(metadata.get(key, "something else"))
        raise ValueError(f"the {key} in {path} must be a list of 3 numbers, got {said!r}")
    return found


def _values(stored: Tensor | None) -> list[float]:
    """Return the numbers of a short tensor, as one list."""
    return [] if stored is None or stored.numel() != 3 else stored.flatten().tolist()


def _check_fit(
    path: Path, name: str, wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]
) -> None:
    """Raise one sentence if names or shapes differ from what the architecture wants."""
    problems = [f"no '{key}'" for key in wanted if key not in found]
    problems += [f"an unknown '{brief(key)}'" for key in found if key not in wanted]
    problems += [
        f"'{key}' of shape {tuple(found[key].shape)} instead of {tuple(wanted[key].shape)}"
        for key in wanted
        if key in found and found[key].shape != wanted[key].shape
    ]
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise ValueError(f"{path} does not fit {name}: it has {problems[0]}{more}")


def _check_values(path: Path, wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """Raise one sentence if a number is none, or of a kind that the architecture has not."""
    for name, tensor in found.items():
        if tensor.dtype != wanted[name].dtype:
            raise ValueError(
                f"{path} is damaged: its '{name}' is {tensor.dtype}, expected {wanted[name].dtype}"
            )
        if not tensor.isfinite().all():
            raise ValueError(f"{path} is damaged: its '{name}' holds NaN or infinity")


def _check_classes(model: nn.Module, num_classes: int | None, source: str) -> None:
    """Raise one sentence if another package's model has a different number of classes."""
    if num_classes is not None and (found := classifier(model).out_features) != num_classes:
        raise ValueError(
            f"{source} has {found} classes, expected {num_classes}; for some of its classes name "
            "them with --classes FILE"
        )


def _read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Return the state dict in a torch file, without wrappers and prefixes; no code is run."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        look_through(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise ValueError(
            f"{path} is not a state dict that loads safely: it is damaged or holds other things "
            "than tensors; save model.state_dict(), not the model"
        ) from None
    except Exception as error:  # damaged files make the unpickler raise nearly anything
        raise ValueError(f"{path} is not a state dict that loads safely: {brief(error)}") from None
    for key in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise ValueError(f"{path} holds {type(content).__name__}, expected a state dict of tensors")
    tensors = {str(key): value for key, value in content.items()}
    for prefix in _PREFIXES:
        own = [key for key in tensors if not key.startswith("normalize.")]
        if own and all(key.startswith(prefix) for key in own):
            tensors = {key.removeprefix(prefix): value for key, value in tensors.items()}
    return tensors
