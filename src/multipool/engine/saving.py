"""An adapter in one file: its state as tensors, its recipe as JSON in the header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from multipool.core import brief, check_plain, read_tensors, write_tensors

_KIND = "multipool adapter"
_VERSION = 2


def digest(tensors: Mapping[str, Tensor], words: str = "") -> str:
    """Return a SHA-256 over names, kinds, shapes and bytes of all tensors, and ``words``."""
    total = hashlib.sha256(words.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(_bytes(tensor))
    return total.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    """Return the values of a tensor on the CPU, in row order."""
    try:
        return tensor.numpy().tobytes()
    except TypeError:  # of a type that numpy lacks, like bfloat16
        # A fresh row: one element may have any stride, and only stride 1 can be read as bytes.
        row = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
        return row.view(torch.uint8).numpy().tobytes()


def write_state(path: str | Path, state: Mapping[str, Tensor], recipe: Mapping[str, Any]) -> None:
    """Write a state and the recipe to make its adapter again; the file is whole or not there."""
    try:
        header = json.dumps({**recipe, "kind": _KIND, "version": _VERSION}, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"notes must be what JSON can hold: {brief(error)}") from None
    facts = {"multipool": header, "sha256": digest(state, header)}
    write_tensors(path, state, facts, private=True)  # a memory holds users' images


def read_state(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return state and recipe if the file is a whole, unaltered adapter of this version."""
    state, metadata = read_tensors(path)
    header = metadata.get("multipool", "")
    try:
        recipe = json.loads(header)
    except (ValueError, RecursionError):
        recipe = None
    if not isinstance(recipe, dict) or recipe.get("kind") != _KIND:
        raise ValueError(f"{path} is not an adapter saved by multipool")
    check_version(path, recipe.get("version"), _VERSION, "load it with the release that wrote it")
    check_unaltered(path, state, header, metadata)
    return state, dict(recipe)


def check_version(path: str | Path, found: object, known: object, advice: str) -> None:
    """Raise ``ValueError`` for a file of another version than the one that is read here."""
    if found != known:
        raise ValueError(
            f"{path} has version {brief(found)}, this multipool reads {known}; {advice}"
        )


def check_unaltered(
    path: Path | str,
    tensors: Mapping[str, Tensor],
    words: str,
    metadata: Mapping[str, str],
    advice: str = "",
) -> None:
    """Raise ``ValueError`` unless the header's checksum is the :func:`digest` of what was read."""
    if metadata.get("sha256") != digest(tensors, words):
        raise ValueError(
            f"{path} has been altered since it was written: its checksum differs{advice}"
        )


def check_state(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor | None], method: str
) -> None:
    """Refuse a state whose names, shapes or kinds are not those expected; None: any tensor."""
    missing, extra = expected.keys() - state.keys(), state.keys() - expected.keys()
    if missing or extra:
        odd = sorted(map(str, missing or extra))[0]
        trouble = f"lacks '{odd}'" if missing else f"has '{odd}', which it does not know"
        raise ValueError(f"the state is not one of method '{method}': it {brief(trouble)}")
    for name, like in expected.items():
        found = state[name]
        if not isinstance(found, Tensor):
            raise ValueError(f"the state's '{name}' must be a tensor, got {type(found).__name__}")
        check_plain(f"the state's '{name}'", found)
        if like is not None and (found.shape, found.dtype) != (like.shape, like.dtype):
            raise ValueError(
                f"the state's '{name}' must be {_kind(like)} for this model, got {_kind(found)}"
            )


def _kind(tensor: Tensor) -> str:
    """Say shape and dtype.

    >>> _kind(torch.zeros(2, 3))
    '(2, 3) float32'
    """
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
