"""How fast the memory is, how its cost grows, and what it takes of space."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from multipool.bench.speed.naive_memory import NaiveMultiCluster, PublishedPool
from multipool.memory import MultiClusterMemory, build
from multipool.memory.switch import available, by_numpy

_CLASSES, _THRESHOLD, _SPREAD = 100, 0.3, 0.12
Batch = tuple[Tensor, Tensor, Tensor]  # images, uncertainty, labels


@dataclass(frozen=True)
class MemoryRow:
    """One measurement: medians of ``add(batch)``, of ``retrieve(64)``, and of both in CPU time."""

    study: str  # versus, batch, clusters, capacity, stream, preset
    bank: str  # multipool, naive, published; of the study preset: its name
    pixels: int  # side of the images
    batch: int
    clusters: int  # K_max
    capacity: int  # N
    seen: int  # samples the bank had seen before the measurement
    add_ms: float
    retrieve_ms: float
    image_bytes: int = 0  # multipool only
    other_bytes: int = 0  # multipool only: all that is kept beside the images
    decisions: str = ""  # multipool only: compiled, or numpy
    cpu_ms: float = 0.0  # CPU time of both together, which other programs hardly change

    @property
    def total_ms(self) -> float:
        """One step of adaptation: add and retrieve."""
        return self.add_ms + self.retrieve_ms


def measure_memory(
    device: str = "cpu",
    sides: tuple[int, ...] = (32, 224),
    repeats: int = 30,
    growth: bool = True,
) -> list[MemoryRow]:
    """Measure the memory against its naive definition and a pool as published.

    Args:
        device: where the images are, ``cpu`` or ``cuda``.
        sides: sides of the images in pixels.
        repeats: batches each median is taken over; the slow references get a sixth.
        growth: measure as well how the cost grows with batch, K, N and length of the stream.
    """
    slow = max(2, repeats // 6)
    ways = ("compiled", "numpy") if available() else ("numpy",)
    rows = []
    for side in sides:
        rows += [_ours("versus", device, repeats, side, way) for way in ways]
        rows.append(_reference("naive", device, slow, side))
        rows.append(_reference("published", device, slow, side))
    if growth:
        how = (device, repeats, sides[0], ways[0])
        rows += [_ours("batch", *how, batch=b) for b in (16, 64, 256)]
        rows += [_ours("clusters", *how, clusters=k) for k in (1, 5, 10, 20)]
        rows += [_ours("capacity", *how, capacity=n) for n in (16, 64, 256)]
        rows += [_ours("stream", *how, seen=s) for s in (1920, 19200, 96000)]
        rows += [_ours("preset", device, repeats, sides[0], way, preset="mcm+") for way in ways]
    return rows


def _ours(
    study: str,
    device: str,
    repeats: int,
    side: int,
    way: str,
    batch: int = 64,
    clusters: int = 5,
    capacity: int = 64,
    seen: int = 0,
    preset: str = "mcm",
) -> MemoryRow:
    """Measure a full memory; ``seen`` makes the stream longer than filling it takes."""
    size = {"capacity": capacity, "max_clusters": clusters}
    with by_numpy() if way == "numpy" else nullcontext():
        bank = build(preset, _CLASSES, threshold=_THRESHOLD, **size)
    memory = cast(MultiClusterMemory, bank)
    stream = _stream(device, side, batch)
    before = max(seen, 4 * clusters * capacity)
    for _ in range(-(-before // batch)):
        memory.add(*next(stream))

    def add(images: Tensor, uncertainty: Tensor, labels: Tensor) -> None:
        memory.add(images, uncertainty=uncertainty, labels=labels)

    adding, retrieving, cpu = _times(add, lambda: memory.retrieve(64), stream, repeats, device)
    images = memory.image_bytes
    return MemoryRow(
        study, preset if study == "preset" else "multipool", side, batch, clusters, capacity,
        -(-before // batch) * batch, adding, retrieving, images, memory.nbytes - images, way, cpu,
    )  # fmt: skip


def _reference(bank: str, device: str, repeats: int, side: int) -> MemoryRow:
    """Measure a bank that works one sample at a time; its batch is stacked as its users do."""
    memory: NaiveMultiCluster | PublishedPool = PublishedPool(_CLASSES, 64)
    if bank == "naive":
        memory = NaiveMultiCluster(_CLASSES, 64, 5, _THRESHOLD)
    stream = _stream(device, side, 64)

    def add(images: Tensor, uncertainty: Tensor, labels: Tensor) -> None:
        # Number by number, as the released adapters read them.
        for row, image in enumerate(images):
            memory.add_instance(image, int(labels[row].item()), uncertainty[row].item())

    for _ in range(20):
        add(*next(stream))
    adding, retrieving, cpu = _times(
        add, lambda: torch.stack(memory.get_memory(64)[0]), stream, repeats, device
    )
    clusters = 5 if bank == "naive" else 1
    return MemoryRow("versus", bank, side, 64, clusters, 64, 1280, adding, retrieving, cpu_ms=cpu)


def _stream(device: str, side: int, batch: int) -> Iterator[Batch]:
    """Yield 8-bit images whose colours spread so that some 3 % of them open a cluster.

    That is the share on a real stream of corrupted images; each merges two clusters once all are
    taken. A few batches come again and again, so that making them is no part of the time.
    """
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(8 if side > 64 else 40):
        colours = 0.5 + _SPREAD * torch.randn(batch, 3, 1, 1, generator=generator)
        noise = torch.rand(batch, 3, side, side, generator=generator) * 0.2 - 0.1
        images = ((colours + noise).clamp(0, 1) * 255).round() / 255
        doubt = torch.rand(batch, generator=generator) * 4.6
        labels = torch.randint(0, _CLASSES, (batch,), generator=generator)
        batches.append((images.to(device), doubt.to(device), labels.to(device)))
    while True:
        yield from batches


def _times(
    add: Callable[[Tensor, Tensor, Tensor], object],
    retrieve: Callable[[], object],
    stream: Iterator[Batch],
    repeats: int,
    device: str,
) -> tuple[float, float, float]:
    """Return the median milliseconds of adding a batch, of retrieving one, and both's CPU time."""
    adding, retrieving, computing = [], [], []
    for _ in range(repeats):
        batch = next(stream)
        _wait(device)
        start, before = time.perf_counter(), time.process_time()
        add(*batch)
        _wait(device)
        middle = time.perf_counter()
        retrieve()
        _wait(device)
        adding.append(middle - start)
        retrieving.append(time.perf_counter() - middle)
        computing.append(time.process_time() - before)
    found = (1e3 * statistics.median(times) for times in (adding, retrieving, computing))
    return next(found), next(found), next(found)


def _wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
