"""An adapter in one file: its state as tensors, its recipe as JSON in the header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from multipool.core import read_tensors, write_tensors

_KIND = "multipool adapter"
_VERSION = 2


def digest(tensors: Mapping[str, Tensor], words: str = "") -> str:
    """Return a SHA-256 over names, kinds, shapes and bytes of all tensors, and ``words``."""
    total = hashlib.sha256(words.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # A fresh row: one element may have any stride, and only stride 1 can be read as bytes.
        row = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
        total.update(row.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def write_state(path: str | Path, state: Mapping[str, Tensor], recipe: Mapping[str, Any]) -> None:
    """Write a state and the recipe to make its adapter again; the file is whole or not there."""
    header = json.dumps({**recipe, "kind": _KIND, "version": _VERSION}, sort_keys=True)
    write_tensors(path, state, {"multipool": header, "sha256": digest(state, header)})


def read_state(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return state and recipe if the file is a whole, unaltered adapter of this version."""
    state, metadata = read_tensors(path)
    header = metadata.get("multipool", "")
    try:
        recipe = json.loads(header)
        known = recipe["kind"] == _KIND
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise ValueError(f"{path} is not an adapter saved by multipool")
    if recipe["version"] != _VERSION:
        raise ValueError(
            f"{path} has version {recipe['version']}, this multipool reads {_VERSION}; "
            "load it with the release that wrote it"
        )
    if metadata.get("sha256") != digest(state, header):
        raise ValueError(f"{path} has been altered since it was saved: its checksum differs")
    return state, dict(recipe)


def check_state(
    state: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...] | None], method: str
) -> None:
    """Refuse a state that lacks a name, has one too many, or another shape; None: any shape."""
    missing, extra = expected.keys() - state.keys(), state.keys() - expected.keys()
    if missing or extra:
        odd = sorted(missing or extra)[0]
        trouble = f"lacks '{odd}'" if missing else f"has '{odd}', which it does not know"
        raise ValueError(f"the state is not one of method '{method}': it {trouble}")
    for name, shape in expected.items():
        if shape is not None and state[name].shape != shape:
            raise ValueError(
                f"the state's '{name}' must have shape {shape} for this model, "
                f"got {tuple(state[name].shape)}"
            )
