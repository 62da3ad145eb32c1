"""Readers of tensors: saved adapters, weights, statistics, checkpoints."""

import io
import json
import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import torch
from reader import Reader
from torch import nn

import multipool
from multipool import models
from multipool.bench.run import checkpoint
from multipool.engine import statistics
from multipool.models import MODELS, Architecture, Normalise


class Small(nn.Module):
    """A classifier of 6 classes that is quick to load."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, num_classes)
        self.normalise = Normalise()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn(self.conv(self.normalise(x))))
        return self.fc(x.mean(dim=(2, 3)))


NAME = "small-for-fuzzing"


def small() -> nn.Module:
    MODELS.setdefault(NAME, Architecture(Small))
    return models.build(NAME, 6, seed=3)


def images(seed: int, count: int = 16) -> torch.Tensor:
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def _state(method: str, memory: str | None) -> Reader:
    def make(folder: Path) -> Path:
        source = [(images(9, 32), torch.arange(32) % 6)]
        adapter = multipool.adapt(small(), method, memory, source=source)
        adapter(images(0))
        adapter.save(folder / "state.safetensors")
        return folder / "state.safetensors"

    def read(path: Path) -> object:
        return multipool.load(path, small()).state_dict()

    return Reader(make, read, None, safetensors_specials)


def safetensors_specials(data: bytes) -> list[bytes]:
    """Lie in the header: sizes, offsets, kinds, nesting, and the JSON inside the metadata."""
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    names = [name for name in header if name != "__metadata__"]

    def built(change: dict[str, object], raw: bytes | None = None) -> bytes:
        text = raw if raw is not None else json.dumps({**header, **change}).encode()
        return struct.pack("<Q", len(text)) + text + body

    found = [struct.pack("<Q", value) + data[8:] for value in (0, 1, 2**31, 2**60, 2**64 - 1)]
    for name in names[:6]:
        entry = header[name]
        found += [
            built({name: {**entry, "shape": [2**60]}}),
            built({name: {**entry, "shape": [-1]}}),
            built({name: {**entry, "shape": [2**32, 2**32]}}),
            built({name: {**entry, "data_offsets": [0, 2**60]}}),
            built({name: {**entry, "data_offsets": [8, 0]}}),
            built({name: {**entry, "dtype": "F64"}}),
            built({name: {**entry, "dtype": "I8"}}),
            built({name: None}),
        ]
    meta = dict(sorted(header.get("__metadata__", {}).items()))  # safetensors shuffles them
    for key in meta:
        for value in ("", "null", "[]", "{}", "1", "[" * 50_000, '"x"', "9" * 5000, "NaN", "-1"):
            found.append(built({"__metadata__": {**meta, key: value}}))
        found.append(built({"__metadata__": {k: v for k, v in meta.items() if k != key}}))
        try:
            inner = json.loads(meta[key])
        except ValueError:
            continue
        for part in inner if isinstance(inner, dict) else ():
            for value in (None, [], {}, -1, 2**60, "x", True, 1e300, [[0]]):
                lie = {**meta, key: json.dumps({**inner, part: value})}
                found.append(built({"__metadata__": lie}))
            lie = {**meta, key: json.dumps({k: v for k, v in inner.items() if k != part})}
            found.append(built({"__metadata__": lie}))
    found += [built({}, b"[" * 200_000), built({}, b'{"a":' * 200_000), built({}, b"\xff" * 50)]
    return [b"", b"\x00" * 8, *found]


def _weights(path: Path) -> object:
    small()
    model = models.load(path, 6)
    return {**model.state_dict(), "out": model(images(1))}


def _make_weights(folder: Path) -> Path:
    models.save(small(), folder / "weights.safetensors", {"architecture": NAME})
    return folder / "weights.safetensors"


def _sound_model(value: object) -> None:
    assert isinstance(value, dict)
    assert value["out"].shape == (16, 6)
    assert all(t.isfinite().all() for name, t in value.items() if name != "out")


def _make_checkpoint_of_torch(folder: Path) -> Path:
    torch.save({"state_dict": small().state_dict()}, folder / "weights.pt")
    return folder / "weights.pt"


def _legacy(folder: Path) -> Path:
    path = folder / "weights.pth"
    torch.save(small().state_dict(), path, _use_new_zipfile_serialization=False)
    return path


def _torch_weights(path: Path) -> object:
    small()
    model = models.load(path, 6, architecture=NAME)
    return {**model.state_dict(), "out": model(images(1))}


class Evil:
    """Would write a file when unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("touch executed",)


def pickle_specials(data: bytes) -> list[bytes]:
    """Pickles that call something, refer to themselves, nest without end or hold other things."""
    loop: list[object] = []
    loop.append(loop)
    others = [Evil(), [Evil()], {"state_dict": Evil()}, loop, {}, [], None, 3, "x", {1: 2}]
    others += [{"fc.bias": 3}, OrderedDict(a=torch.ones(1)), {"state_dict": {"a": {}}}]
    found = [pickle.dumps(value, protocol) for value in others for protocol in (0, 2, 4)]
    for name in ("os system", "builtins eval", "numpy.core.multiarray scalar", "numpy load"):
        module, attribute = name.split()
        found.append(f"c{module}\n{attribute}\n(S'x'\ntR.".encode())
    found += [b"\x80\x02" + b"]" * 200_000 + b".", b"(" * 200_000 + b"l."]
    found += [b"\x80\x04\x95" + struct.pack("<Q", 2**60), b"\x8e" + struct.pack("<Q", 2**60)]
    found += [b"r" + struct.pack("<I", 2**32 - 1) + b".", b"\x80\x02N" + b"q\xff\xff\xff\xff."]
    buffer = io.BytesIO()
    torch.save(loop, buffer)
    return [b"", *found, buffer.getvalue()]


def _make_statistics(folder: Path) -> Path:
    path = folder / "statistics.safetensors"
    mean = torch.rand(6, 4, generator=torch.Generator().manual_seed(1))
    statistics.write(path, statistics.SourceStatistics(mean, mean + 1, torch.arange(6)))
    return path


def _read_statistics(path: Path) -> object:
    found = statistics.read(path)
    return [found.mean, found.var, found.counts]


SETTINGS = {"method": "rotta", "seed": 1, "options": {"lr": 0.1}}


def _make_checkpoint(folder: Path) -> Path:
    notes = {"trace": [{"samples": 3, "sizes": [1]}], "seconds": {"load": 0.5}, "counters": {}}
    tensors = {"a": torch.arange(6.0), "b": torch.tensor(3)}
    checkpoint.Checkpoint(7, SETTINGS, tensors, tensors, notes).write(folder)
    return folder / checkpoint.FILE


def _read_checkpoint(path: Path) -> object:
    found = checkpoint.read(path.parent, SETTINGS)
    assert found is not None
    return [found.batches, found.settings, found.adapter, found.tally, found.notes]


TENSOR_READERS = {
    "a saved tent": _state("tent", None),
    "a saved petta with mcm": _state("petta", "mcm"),
    "weights, safetensors": Reader(_make_weights, _weights, _sound_model, safetensors_specials),
    "weights, torch": Reader(
        _make_checkpoint_of_torch, _torch_weights, _sound_model, pickle_specials
    ),
    "weights, torch before 1.6": Reader(_legacy, _torch_weights, _sound_model, pickle_specials),
    "source statistics": Reader(_make_statistics, _read_statistics, None, safetensors_specials),
    "checkpoint of a run": Reader(_make_checkpoint, _read_checkpoint, None, safetensors_specials),
}
