"""Other libraries in the tests: the real ones, or a skip that says why."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch


def _declare_detection_operators() -> torch.library.Library | None:
    """Let a torchvision that was built for CUDA import beside a torch for the CPU alone.

    Its compiled operators do not load there, and it stops at giving two of them a shape. Only
    detectors call them: declared and never run, they keep nothing from being the real torchvision.
    """
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None or torch.version.cuda is not None:
        return None
    if "+cu" not in Path(found.origin).with_name("version.py").read_text():
        return None
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


TORCHVISION = _declare_detection_operators()  # kept: what it declares goes when it does


def package(name: str) -> ModuleType:
    """Return a real package, or skip: not everybody installs all of them."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # the second: a torchvision for another torch
        pytest.skip(f"{name} does not import here: {error}")
