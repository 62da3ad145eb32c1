"""Replay a function of tensors as a CUDA graph once a shape has proved to be a habit.

Launching some two thousand small kernels from Python takes longer than running them; a graph
launches them at once. Where there is no GPU, or a shape is rare, the function runs as it is.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from multipool.ops import fused

_log = logging.getLogger("multipool")
Function = Callable[..., tuple[Tensor, ...]]
_WARM_UP = 3  # calls before anything is captured: libraries set themselves up meanwhile
_HABIT = 2  # calls of one shape before it is captured
_MOST = 64  # graphs kept: a memory without fill hands out batches of many sizes


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class Graphed:
    """Calls ``method(*tensors)``, on a GPU through graphs kept per input shape.

    The method must touch the same tensors in the same way at every call of one shape, make no
    host decision on device values, and draw no random numbers. Its results are overwritten by
    the next call: clone what is kept. ``fuses``: the type of activations whose kernels
    are fused where they can be.
    """

    def __init__(
        self,
        method: MethodType | Function,
        *,
        enabled: bool = True,
        fuses: torch.dtype | None = None,
    ) -> None:
        # Weak: an adapter that is dropped must free its graphs at once, not at the next
        # garbage collection, which knows nothing of GPU memory.
        self._method = weakref.WeakMethod(method)
        self.enabled, self._fuses = enabled, fuses
        self._calls: dict[tuple[object, ...], int] = {}
        self._recordings: dict[tuple[object, ...], _Recording] = {}
        self._stream: torch.cuda.Stream | None = None
        self._pool: Any = None  # torch's handle, a type it does not export

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return what the method returns for ``inputs``."""
        if not (self.enabled and inputs[0].is_cuda):
            return self._call(inputs)
        key = tuple((tuple(t.shape), t.dtype) for t in inputs)
        self._calls[key] = self._calls.get(key, 0) + 1
        if key in self._recordings:
            return self._replay(self._recordings[key], inputs)
        cold = sum(self._calls.values()) <= _WARM_UP or self._calls[key] < _HABIT
        if cold or len(self._recordings) >= _MOST:
            return self._beside(inputs)
        try:
            self._recordings[key] = self._record(inputs)
        except RuntimeError as error:  # some model does what a graph cannot hold
            _log.warning("no CUDA graph for this model, its steps will be slower: %s", error)
            self.enabled = False
            return self._call(inputs)
        return self._replay(self._recordings[key], inputs)

    def forget(self) -> None:
        """Free all recordings; what becomes a habit again is recorded again."""
        self._calls.clear()
        self._recordings.clear()

    def _call(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        method = self._method()
        assert method is not None  # its object calls us, so it is alive
        return method(*inputs)

    def _beside(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Run on the stream that will capture, so that warm-up warms the right one."""
        stream = self._side_stream(inputs[0].device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            outputs = self._call(inputs)
        torch.cuda.current_stream().wait_stream(stream)
        return outputs

    def _record(self, inputs: tuple[Tensor, ...]) -> _Recording:
        held = tuple(t.clone(memory_format=torch.preserve_format) for t in inputs)
        stream = self._side_stream(inputs[0].device)
        if self._fuses is not None:
            fused.get_ready(inputs[0].device, self._fuses)
        torch.cuda.synchronize()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        # One pool for all shapes: only one of them runs at a time, and results are read at once.
        # Other threads may go on with what they do meanwhile.
        alone = "thread_local"
        with torch.cuda.graph(graph, self._pool, stream, capture_error_mode=alone):
            outputs = self._call(held)
        return _Recording(graph, held, outputs)

    def _replay(self, recording: _Recording, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        for held, given in zip(recording.inputs, inputs, strict=True):
            held.copy_(given)
        recording.graph.replay()
        return recording.outputs

    def _side_stream(self, device: torch.device) -> torch.cuda.Stream:
        if self._stream is None:
            self._stream = torch.cuda.Stream(device)
        return self._stream
