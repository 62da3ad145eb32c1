"""How long a service takes to answer many streams, beside the plain model behind the same server.

Each method has a service of its own, a process as operators start it. They take turns of a few
seconds under the same load, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from multipool.bench.speed.camera import MODEL, Camera, Scenes

_PATIENCE = 120.0  # seconds for a service to start, and to end
_PIECE = 64  # images a request while streams are made older


@dataclass(frozen=True)
class Load:
    """What is asked of each service."""

    streams: int = 64
    images: int = 1  # a request
    period: float = 2.0  # seconds between two requests of a stream
    seconds: float = 60.0  # in all, of each service
    turns: int = 6  # that these are divided into
    seen: int = 512  # images that a stream has been shown before; with fewer, pools are young
    weights: str | None = None  # file of a model for images of 32 px; None: the embedded one

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "weights" and not (value >= 0 if name == "seen" else value > 0):
                raise ValueError(f"--{name} must be a number above 0, got {value}")


@dataclass(frozen=True)
class ServeSpeed:
    """How one service did; times in milliseconds, memory in MiB."""

    method: str
    answers: int
    p50: float
    p99: float
    times_plain: float  # p50 over that of the last service, the plain model's
    cpu: float | None  # of the service, an answer; None: not known on this system
    memory: float | None  # at the end


def measure_serve(
    methods: Sequence[str], load: Load, progress: Callable[[str], None] | None = None
) -> list[ServeSpeed]:
    """Return the speed of a service with each method, the plain model's last."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served = []
        for method in dict.fromkeys((*methods, "source")):
            if progress is not None:
                progress(f"starting a service with {method}")
            served.append(_Service(method, folder / method, load.weights))
            stack.callback(served[-1].stop)
        asyncio.run(_take_turns(served, load, progress))
        plain = float(np.median(served[-1].latencies))
        return [service.speed(plain) for service in served]


async def _take_turns(
    served: Sequence[_Service], load: Load, progress: Callable[[str], None] | None
) -> None:
    scenes = Scenes()
    for service in served:
        await service.open(load, scenes)
    for turn in range(load.turns):
        if progress is not None:
            progress(f"turn {turn + 1} of {load.turns}")
        for service in served if turn % 2 == 0 else reversed(served):
            await service.drive(load, scenes)


@dataclass(eq=False)
class _Service:
    """``multipool serve`` in a process of its own, and its cameras."""

    method: str
    folder: Path
    weights: str | None = None
    latencies: list[float] = field(default_factory=list)  # seconds
    cpu: float | None = None  # seconds that it worked during turns
    memory: float | None = None

    def __post_init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._log = self.folder.with_suffix(".log")
        command = [sys.executable, "-m", "multipool", "serve", "--method", self.method]
        command += ["--port", str(self.port), "--state-dir", str(self.folder), "--name", MODEL]
        command += [] if self.weights is None else ["--weights", self.weights]
        env = {"OMP_NUM_THREADS": "1", **os.environ}
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if time.monotonic() > until or self._child.poll() is not None:
                    said = self._log.read_text().strip().splitlines()
                    raise ValueError(f"a service did not start: {said[-1:]}") from None
                time.sleep(0.05)
            else:
                return

    async def open(self, load: Load, scenes: Scenes) -> None:
        """Open the streams, and show them what they are to have seen."""
        self._cameras = [Camera(self.port, f"camera-{n}") for n in range(load.streams)]
        self._steps = [load.seen] * load.streams
        for number, camera in enumerate(self._cameras):
            for start in range(0, load.seen, _PIECE):
                count = min(_PIECE, load.seen - start)
                shown = [scenes.request(number, start + i, 1) for i in range(count)]
                await camera.ask(np.concatenate(shown))
        self.close()

    async def drive(self, load: Load, scenes: Scenes) -> None:
        """Let all cameras ask for a turn."""
        before, until = _cpu_seconds(self._child.pid), time.monotonic() + load.seconds / load.turns
        await asyncio.gather(*(self._shoot(n, load, scenes, until) for n in range(load.streams)))
        after = _cpu_seconds(self._child.pid)
        if before is not None and after is not None:
            self.cpu = (self.cpu or 0.0) + after - before
        self.memory = _resident_mib(self._child.pid)
        self.close()

    async def _shoot(self, number: int, load: Load, scenes: Scenes, until: float) -> None:
        # Cameras do not tick together.
        at = time.monotonic() + load.period * number / load.streams
        while at < until:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            images = scenes.request(number, self._steps[number], load.images)
            self._steps[number] += 1
            began = time.monotonic()
            await self._cameras[number].ask(images)
            self.latencies.append(time.monotonic() - began)
            at = max(at + load.period, time.monotonic())

    def close(self) -> None:
        """Close the connections, which a service does itself with those that are silent."""
        for camera in self._cameras:
            camera.close()

    def stop(self) -> None:
        """End the process."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        self._child.wait(_PATIENCE)

    def speed(self, plain: float) -> ServeSpeed:
        """Return the figures; ``plain``: the plain model's median latency in seconds."""
        p50, p99 = (float(np.quantile(self.latencies, share)) for share in (0.5, 0.99))
        answers = len(self.latencies)
        cpu = None if self.cpu is None else 1e3 * self.cpu / answers
        return ServeSpeed(self.method, answers, 1e3 * p50, 1e3 * p99, p50 / plain, cpu, self.memory)


def _cpu_seconds(pid: int) -> float | None:
    """Return the seconds that a process has worked; None: this system does not say."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int) -> float | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
