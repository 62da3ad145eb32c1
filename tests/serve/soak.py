"""Many streams at once for a long time: no lost or mixed answer, flat memory, how long it takes.

    python tests/serve/soak.py --streams 64 --seconds 600 --method multipool

Each stream shows drifting shapes of its own, a request every ``--period`` seconds. Afterwards an
adapter alone is shown the same requests, and every logit must be the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import torch

if __package__:
    from .process import Process
else:
    from process import Process

import multipool
from multipool import models
from multipool.bench.speed.camera import DOMAINS, MODEL, Camera, Scenes


@dataclass
class Load:
    """What is asked: streams, images a request, seconds between two, and for how long."""

    streams: int = 64
    images: int = 1
    period: float = 2.0
    seconds: float = 600.0
    requests: int = 1_000_000  # of a stream, at most
    method: str = "multipool"
    check: int = 64  # streams whose answers are computed again
    domains: int = len(DOMAINS)  # that a stream shows in turn


@dataclass
class Outcome:
    """What came of it."""

    answers: int = 0
    wrong: int = 0
    lost: int = 0
    latencies: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MiB, over time
    cpu_seconds: float = 0.0  # that the service has used, its start left out
    done: bool = False

    def percentile(self, share: float) -> float:
        """Return a percentile of the latencies in milliseconds."""
        return 1e3 * float(np.quantile(self.latencies, share))


async def _camera(
    number: int, port: int, load: Load, scenes: Scenes, until: float, answers: dict, out: Outcome
) -> None:
    camera = Camera(port, f"camera-{number}")
    mine = answers[number] = []
    # Cameras do not tick together.
    at = time.monotonic() + load.period * number / load.streams
    step = 0
    while at < until and step < load.requests:
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        images = scenes.request(number, step, load.images)
        began = time.monotonic()
        logits, told = await camera.ask(images)
        out.latencies.append(time.monotonic() - began)
        if told["batch"] != step + 1 or told["batch_size"] != load.images:
            out.lost += 1
        mine.append(logits.copy())
        step += 1
        at = max(at + load.period, time.monotonic())
    camera.close()


async def _watch(process: psutil.Process, until: float, out: Outcome) -> None:
    while time.monotonic() < until and not out.done:
        out.memory.append(process.memory_info().rss / 2**20)
        await asyncio.sleep(0.5)


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def soak(load: Load, folder: Path) -> Outcome:
    """Run the load against a service, then compare every answer with an adapter's alone."""
    scenes, out = Scenes(domains=load.domains), Outcome()
    process = Process(folder / "state", "--method", load.method, "--save-every", "10")
    process.start()
    answers: dict[int, list[np.ndarray]] = {}

    async def drive() -> None:
        until = time.monotonic() + load.seconds
        cameras = [
            _camera(n, process.port, load, scenes, until, answers, out) for n in range(load.streams)
        ]
        watching = asyncio.create_task(_watch(psutil.Process(process.pid), until, out))
        used = _cpu_seconds(process.pid)
        await asyncio.gather(*cameras)
        out.cpu_seconds = _cpu_seconds(process.pid) - used
        out.done = True
        await watching

    try:
        asyncio.run(drive())
    finally:
        status = process.stop()
    if status != 0:
        out.lost += 1
    out.answers = sum(map(len, answers.values()))
    out.wrong = _compare(load, scenes, answers)
    return out


def _compare(load: Load, scenes: Scenes, answers: dict[int, list[np.ndarray]]) -> int:
    torch.set_num_threads(1)
    shared, wrong = multipool.share(models.load(MODEL)), 0
    for number in list(answers)[: load.check]:
        adapter = multipool.adapt(shared, load.method)
        for step, logits in enumerate(answers[number]):
            images = torch.from_numpy(scenes.request(number, step, load.images))
            wrong += not np.array_equal(adapter(images).numpy(), logits)
    return wrong


def main() -> None:
    """Run a soak and print its figures as JSON."""
    parser = argparse.ArgumentParser()
    for name, default in vars(Load()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    load = Load(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        out = soak(load, Path(folder))
    third = max(1, len(out.memory) // 3)
    figures = {
        **vars(load),
        "answers": out.answers,
        "wrong": out.wrong,
        "lost": out.lost,
        "p50_ms": round(out.percentile(0.5), 1),
        "p99_ms": round(out.percentile(0.99), 1),
        "cpu_ms_an_answer": round(1e3 * out.cpu_seconds / max(1, out.answers), 1),
        "memory_mib": [round(m) for m in out.memory[:: max(1, len(out.memory) // 12)]],
        "memory_mib_after_a_third": round(float(np.mean(out.memory[third : third + 3])), 1),
        "memory_mib_at_the_end": round(float(np.mean(out.memory[-3:])), 1),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
