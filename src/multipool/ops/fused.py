"""Normalisation with what surrounds it as one kernel, in passes that a GPU records.

Activations are limited by memory bandwidth: to normalise, to add a shortcut and to cut off what is
negative one after another reads and writes them three times. Everything here has a plain version
that computes the same, to rounding. Launched one by one, Triton's kernels cost the host more than
they save the device: they are used where a CUDA graph is being recorded, and no gradient flows.
"""

from __future__ import annotations

import importlib
import logging
import os
from types import ModuleType

import torch
from torch import Tensor

from multipool.ops.normalise import LayerState, Policy, frozen

_log = logging.getLogger("multipool")
_ROWS, _WIDE = 64, 32  # a block of activations
_ALIKE = 16  # the kernels are for channels that come in multiples of this
_known: dict[tuple[torch.device, torch.dtype], ModuleType | None] = {}


def get_ready(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether there are kernels; whoever asks first waits until they are compiled.

    That takes seconds the first time on a machine; then Triton has them on disk.
    """
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    key = (device, dtype)
    if key not in _known:
        _known[key] = _loaded(device, dtype)
    return _known[key] is not None


def moments(policy: Policy, x: Tensor, state: LayerState) -> tuple[Tensor, Tensor] | None:
    """Return the mean and variance that ``policy`` normalises by, None to have it do that itself.

    A policy that can be fused says by a method ``moments`` which they are, and moves there what it
    moves.
    """
    if not x.is_cuda or not _usable(x):
        return None
    if policy is frozen:
        return state.mean, state.var
    found = getattr(policy, "moments", None)
    return None if found is None else found(x, state)


def normalised(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    state: LayerState,
    *,
    relu: bool = False,
    shortcut: Tensor | None = None,
) -> Tensor:
    """Return w (x - mean) / sqrt(var + eps) + b, plus ``shortcut``, negative values cut off.

    ``mean`` and ``var`` are ``(C,)``, or ``(B, C)`` for statistics of each image.
    """
    channels, y = x.shape[1], torch.empty_like(x)
    if shortcut is not None and (
        shortcut.stride() != x.stride() or shortcut.data_ptr() % _ALIKE or shortcut.dtype != x.dtype
    ):
        shortcut = torch.empty_like(x).copy_(shortcut)
    rows = x.numel() // channels
    _kernels(x).normalise[(-(-rows // _ROWS), -(-channels // _WIDE))](
        x, y, x if shortcut is None else shortcut, mean, var, state.weight, state.bias, state.eps,
        0.0 if relu else -torch.inf, int(shortcut is not None), rows, channels,
        rows // x.shape[0], mean.stride(0), EACH=mean.ndim == 2, ROWS=_ROWS, WIDE=_WIDE,
    )  # fmt: skip
    return y


def moved(
    x: Tensor,
    own: LayerState,
    home: LayerState,
    share: Tensor,
    rate: Tensor,
    weights: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Move the statistics of ``own`` by ``rate`` to those of ``x``; return them mixed with home's.

    ``share`` ``()`` is the weight of ``own`` in the mixture; ``weights`` ``(B,)`` of the images sum
    to 1, None: all alike.
    """
    found = _kernels(x)
    channels, space = x.shape[1], x.numel() // (x.shape[0] * x.shape[1])
    rows, wide, parts = x.numel() // channels, -(-channels // _WIDE), int(found.PARTS)
    sums = torch.empty(parts, 2, channels, device=x.device)
    found.sum_parts[(parts, wide)](
        x, own.mean if weights is None else weights, own.mean, sums, rows, channels, space,
        -(-rows // parts), int(weights is not None), ROWS=_ROWS, WIDE=_WIDE,
    )  # fmt: skip
    mixed = torch.empty(2, channels, device=x.device)
    count = float(rows if weights is None else space)
    found.move[(wide,)](
        sums, own.mean, own.var, home.mean, home.var, share, rate, mixed, count, channels,
        WIDE=_WIDE,
    )  # fmt: skip
    return mixed[0], mixed[1]


def _usable(x: Tensor) -> bool:
    """Tell whether the kernels can treat activations ``(B, C, ...)`` here, and as they lie."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if _known.get((x.device, x.dtype)) is None or not torch.cuda.is_current_stream_capturing():
        return False
    flat = x.ndim == 2 and x.is_contiguous()
    lies = flat or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last))
    even = x.shape[1] % _ALIKE == 0 and x.data_ptr() % _ALIKE == 0
    return lies and even and 0 < x.numel() < 2**31


def _kernels(x: Tensor) -> ModuleType:
    found = _known[x.device, x.dtype]
    assert found is not None  # _usable() was asked
    return found


def _loaded(device: torch.device, dtype: torch.dtype) -> ModuleType | None:
    """Return the kernels after each has run once, or None where they cannot be had."""
    if not _wanted(device):
        return None
    try:
        _known[device, dtype] = importlib.import_module("multipool.ops.kernels")
        x = torch.zeros(1, _ALIKE, device=device, dtype=dtype)
        one, number = torch.ones(_ALIKE, device=device), torch.zeros((), device=device)
        state = LayerState(one, one, one.clone(), one.clone(), 1e-5)
        mean, var = moved(x, state, state, number, number, None)
        normalised(x, mean, var, state)
        normalised(x, mean[None], var[None], state)
    except Exception as error:  # no Triton, or no compiler for what it writes
        _log.info("activations are treated by plain kernels: %s", error)
        return None
    return _known[device, dtype]


def _wanted(device: torch.device) -> bool:
    """Tell whether kernels are wanted; ``MULTIPOOL_COMPILED=0`` switches them off."""
    return device.type == "cuda" and os.environ.get("MULTIPOOL_COMPILED") != "0"
