"""One stream in a process of its own, somewhere in a Ray cluster."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from multipool.engine.saving import write_state
from multipool.serve.make import AdapterMaker
from multipool.serve.stream import Answer, Facts, Snapshot, Stream
from multipool.serve.tensors import Array


class StreamActor:
    """A stream that is given its state, and gives it away as a file; knows no disk of others."""

    _stream: Stream

    def __init__(self, name: str, maker: AdapterMaker, threads: int) -> None:
        torch.set_num_threads(threads)
        self._name, self._maker = name, maker

    def open(self, content: bytes | None) -> None:
        """Go on from a file's content, or begin; what cannot be read raises an error."""
        self._stream = stream_of(self._name, self._maker, content)

    def answer(self, images: Array, learn: bool) -> Answer:
        """Return the logits of a batch ``(B, C, H, W)``; learn from it if asked to."""
        return self._stream.answer(torch.from_numpy(images.copy()), learn=learn)

    def reset(self) -> Facts:
        """Begin anew."""
        return self._stream.reset()

    def file(self) -> bytes:
        """Return the state of this moment as the file that ``multipool.load`` reads."""
        return as_file(self._stream.snapshot())

    def pools(self) -> list[dict[str, Any]]:
        """Return what is known of each pool."""
        return self._stream.pools()

    def pool_images(self) -> dict[str, Tensor]:
        """Return some images of each bank."""
        return self._stream.pool_images()


def stream_of(name: str, maker: AdapterMaker, content: bytes | None) -> Stream:
    """Return the stream of a file's content, or a new one."""
    if content is None:
        return Stream(name, maker.make(maker.network))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.safetensors"
        path.write_bytes(content)
        return Stream(name, maker.load(path, maker.network))


def as_file(snapshot: Snapshot) -> bytes:
    """Return a snapshot as the content of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.safetensors"
        write_state(path, snapshot.state, snapshot.recipe)
        return path.read_bytes()
