"""Who else is at work while something is measured: one bench at a time, and what else ran."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import torch

from multipool.bench.run.environment import host, versions

try:
    import fcntl
except ImportError:  # not on Windows, where benches do not wait for each other
    fcntl = None  # type: ignore[assignment]

LOCK = Path(tempfile.gettempdir()) / "multipool-bench.lock"
_PAUSE = 0.5  # seconds between two tries


@contextmanager
def turn(progress: Callable[[str], None] | None = None, lock: Path = LOCK) -> Iterator[None]:
    """Wait until no other bench runs on this machine, and keep others waiting meanwhile."""
    if fcntl is None:
        yield
        return
    with _opened(lock) as file:
        said = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said and progress is not None:
                    progress("waiting for another bench on this machine")
                said = True
                time.sleep(_PAUSE)
        yield  # closing the file gives the turn away


def _opened(lock: Path) -> TextIO:
    """Return the file that is locked; another user's can be read, and that is enough."""
    try:
        return lock.open("a")
    except PermissionError:
        return lock.open()


class Witness:
    """Notes the machine and how busy it was with others while something was measured."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._start, self._spent = device, time.perf_counter(), _own_seconds()
        self._before = _busy_seconds()

    def facts(self) -> dict[str, object]:
        """Return the machine, the software, and the cores that others kept busy, on the mean."""
        wall = max(time.perf_counter() - self._start, 1e-9)
        found: dict[str, object] = {**host(self._device), "versions": versions()}
        found["seconds"] = round(wall, 1)
        found["own_cores"] = round((_own_seconds() - self._spent) / wall, 2)
        after = _busy_seconds()
        if self._before is not None and after is not None:
            others = (after - self._before - (_own_seconds() - self._spent)) / wall
            found["cores_busy_with_others"] = round(max(0.0, others), 2)
        if self._device.type == "cuda":
            free, total = torch.cuda.mem_get_info(self._device)
            ours = torch.cuda.memory_reserved(self._device)
            found["gpu_memory_of_others_mib"] = round((total - free - ours) / 2**20)
        return found


def _own_seconds() -> float:
    """Return the processor time of this process, all threads."""
    return sum(os.times()[:2])


def _busy_seconds(stat: Path = Path("/proc/stat")) -> float | None:
    """Return the seconds that all cores together have worked since the start; None: not known."""
    try:
        words = stat.read_text().split("\n", 1)[0].split()
        numbers = [int(word) for word in words[1:9]]
    except (OSError, ValueError):
        return None
    idle = sum(numbers[3:5])  # idle, and waiting for disks
    return (sum(numbers) - idle) / os.sysconf("SC_CLK_TCK")
