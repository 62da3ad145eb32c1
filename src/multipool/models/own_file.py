"""A model that a function in the user's own Python file makes: ``FILE.py:FUNCTION``."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

from torch import nn

from multipool.core import brief, unknown

_MARK = ".py:"


def is_own(source: str) -> bool:
    """Return whether ``source`` is spelled ``FILE.py:FUNCTION``."""
    return _MARK in source


def file_of(source: str) -> Path:
    """Return the file in ``FILE.py:FUNCTION``.

    >>> file_of("nets/mine.py:make").as_posix()
    'nets/mine.py'
    """
    return Path(source.rpartition(":")[0])


def from_file(source: str, num_classes: int | None) -> nn.Module:
    """Call ``FUNCTION`` of ``FILE.py`` and return its model, which takes images in [0, 1].

    The file is run, as ``python FILE.py`` would run it. A function with an argument
    ``num_classes`` is told their number where it is known; others are called without arguments.
    """
    path, name = file_of(source), source.rpartition(":")[2]
    module = _run(path)
    functions = {key: value for key, value in vars(module).items() if callable(value)}
    if name not in functions:
        own = [key for key in functions if key[0] != "_"]
        raise unknown(f"function of {path}", name, own)
    make = functions[name]
    takes = "num_classes" in inspect.signature(make).parameters
    try:
        model = make(num_classes=num_classes) if takes and num_classes else make()
    except Exception as error:
        raise ValueError(
            f"{source} ended with {type(error).__name__}: {brief(error)}; it must be callable "
            "without arguments, or with num_classes alone"
        ) from error
    if not isinstance(model, nn.Module):
        raise ValueError(f"{source} must return a torch.nn.Module, got {type(model).__name__}")
    return model


def _run(path: Path) -> ModuleType:
    """Return the file as a module that nothing else can import by its name."""
    if not path.is_file():
        raise FileNotFoundError(f"no Python file at {path}")
    spec = importlib.util.spec_from_file_location(f"_multipool_own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file that can be loaded")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = f"{type(error).__name__}: {brief(error)}"
        raise ValueError(f"{path} does not run: {what}") from error
    return module
