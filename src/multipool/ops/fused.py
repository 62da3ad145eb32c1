"""Normalisation with what surrounds it as one kernel, in passes that a GPU records.

Activations are limited by memory bandwidth: to normalise, to add a shortcut and to cut off what is
negative one after another reads and writes them three times. Everything here has a plain version
that computes the same, to rounding. Launched one by one, Triton's kernels cost the host more than
they save the device: they are used where a CUDA graph is being recorded. Passes that learn have
``fused_learning.py`` on top.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

import torch
from torch import Tensor

from multipool.ops.normalise import LayerState, Mix, Policy, batch, frozen

_log = logging.getLogger("multipool")
ROWS, WIDE = 64, 32  # a block of activations
MOST, _PROGRAMS = 256, 1024  # parts that a sum is made of, and blocks at work on it
_ALIKE = 16  # the kernels are for channels that come in multiples of this
_known: dict[tuple[torch.device, torch.dtype], Any] = {}  # Triton's modules, or None


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


def in_use(device: torch.device) -> bool:
    """Tell whether there are kernels on ``device`` that somebody has asked for already."""
    return any(found is not None for (where, _), found in _known.items() if where == device)


def moments(policy: Policy, x: Tensor, state: LayerState) -> tuple[Tensor, Tensor] | None:
    """Return the mean and variance that ``policy`` normalises by, None to have it do that itself.

    A policy that can be fused has a :class:`Mix`, or says by a method ``moments`` which they are;
    what it moves is moved here. No gradient flows.
    """
    if not usable(x):
        return None
    if policy is frozen:
        return state.mean, state.var
    if (mix := mix_of(policy, x)) is not None:
        settled = settle(x, state, mix)
        return settled[0], settled[1]
    found = getattr(policy, "moments", None)
    return None if found is None else found(x, state)


def mix_of(policy: Policy, x: Tensor) -> Mix | None:
    """Return how ``policy`` mixes statistics; None: it does something else."""
    if policy is frozen:
        return Mix(0.0, 0.0)
    if policy is batch:
        return None if x.numel() == x.shape[1] else Mix(1.0, 1.0)
    return getattr(policy, "mix", None)


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
    shortcut = None if shortcut is None else laid_out(shortcut, x)
    rows = x.numel() // channels
    kernels(x).normalise[(-(-rows // ROWS) * -(-channels // WIDE),)](
        x, y, x if shortcut is None else shortcut, mean, var, state.weight, state.bias, state.eps,
        0.0 if relu else -torch.inf, int(shortcut is not None), rows, channels,
        rows // x.shape[0], mean.stride(0), EACH=mean.ndim == 2, ROWS=ROWS, WIDE=WIDE,
    )  # fmt: skip
    return y


def settle(x: Tensor, state: LayerState, mix: Mix) -> Tensor:
    """Return the mixed mean, the mixed variance and the mean of ``x``, as rows of ``(3, C)``.

    The statistics of ``state`` move to the mixed ones if ``mix`` says so.
    """
    sums, parts = _sums(x, x, mix.weights)
    settled = torch.empty(3, x.shape[1], device=x.device)
    kernels(x).settle[(-(-x.shape[1] // WIDE),)](
        sums, x, state.mean, state.var, settled, parts, _count(x, mix.weights), mix.rate,
        int(mix.moves), x.shape[1], PARTS=MOST, WIDE=WIDE,
    )  # fmt: skip
    return settled


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
    sums, parts = _sums(x, own.mean, weights)
    mixed = torch.empty(2, x.shape[1], device=x.device)
    kernels(x).move[(-(-x.shape[1] // WIDE),)](
        sums, own.mean, own.var, home.mean, home.var, share, rate, mixed, parts,
        _count(x, weights), x.shape[1], PARTS=MOST, WIDE=WIDE,
    )  # fmt: skip
    return mixed[0], mixed[1]


def cut(x: Tensor) -> tuple[int, int]:
    """Return into how many blocks channels are cut, and into how many parts the rows of a sum."""
    rows, wide = x.numel() // x.shape[1], -(-x.shape[1] // WIDE)
    return wide, max(1, min(MOST, _PROGRAMS // wide, -(-rows // ROWS)))


def usable(x: Tensor) -> bool:
    """Tell whether the kernels can treat activations ``(B, C, ...)`` here, and as they lie."""
    if not x.is_cuda or torch.compiler.is_compiling():
        return False
    if _known.get((x.device, x.dtype)) is None or not torch.cuda.is_current_stream_capturing():
        return False
    flat = x.ndim == 2 and x.is_contiguous()
    lies = flat or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last))
    even = x.shape[1] % _ALIKE == 0 and x.data_ptr() % _ALIKE == 0
    return lies and even and 0 < x.numel() < 2**31


def laid_out(tensor: Tensor, x: Tensor) -> Tensor:
    """Return ``tensor`` as the kernels want it beside ``x``: its type and layout, aligned."""
    alike = tensor.stride() == x.stride() and tensor.dtype == x.dtype
    if alike and tensor.data_ptr() % _ALIKE == 0:
        return tensor
    return torch.empty_like(x).copy_(tensor)


def kernels(x: Tensor) -> Any:  # noqa: ANN401
    """Return the kernels, by their names, for activations like ``x``."""
    return _known[x.device, x.dtype]


def _sums(x: Tensor, middle: Tensor, weights: Tensor | None) -> tuple[Tensor, int]:
    """Return sums of x - middle and of its squares ``(parts, 2, C)``, and the number of parts."""
    wide, parts = cut(x)
    channels = x.shape[1]
    rows = x.numel() // channels
    sums = torch.empty(parts, 2, channels, device=x.device)
    kernels(x).sum_parts[(wide, parts)](
        x, sums if weights is None else weights, middle, sums, rows, channels, rows // len(x),
        parts, int(weights is not None), ROWS=ROWS, WIDE=WIDE,
    )  # fmt: skip
    return sums, parts


def _count(x: Tensor, weights: Tensor | None) -> float:
    """Return what the sums of ``x`` are divided by."""
    values = x.numel() // x.shape[1]
    return float(values if weights is None else values // len(x))


class _Kernels:
    """The kernels of both files, by name."""

    def __init__(self) -> None:
        for name in ("kernels", "kernels_learning"):
            self.__dict__.update(vars(importlib.import_module(f"multipool.ops.{name}")))


def _loaded(device: torch.device, dtype: torch.dtype) -> Any:  # noqa: ANN401
    """Return the kernels after each has run once, or None where they cannot be had."""
    if not _wanted(device):
        return None
    try:
        _known[device, dtype] = _Kernels()
        x = torch.zeros(2, _ALIKE, device=device, dtype=dtype)
        one, number = torch.ones(_ALIKE, device=device), torch.zeros((), device=device)
        state = LayerState(one, one, one.clone(), one.clone(), 1e-5)
        mean, var = moved(x, state, state, number, number, None)
        normalised(x, mean, var, state)
        normalised(x, mean[None], var[None], state)
        importlib.import_module("multipool.ops.fused_learning").rehearse(x, state)
    except Exception as error:  # no Triton, or no compiler for what it writes
        _log.info("activations are treated by plain kernels: %s", error)
        return None
    return _known[device, dtype]


def _wanted(device: torch.device) -> bool:
    """Tell whether kernels are wanted; ``MULTIPOOL_COMPILED=0`` switches them off."""
    return device.type == "cuda" and os.environ.get("MULTIPOOL_COMPILED") != "0"
