"""A Ray cluster on loopback, whose nodes are processes that a test may kill."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def until(condition, seconds=300):
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Cluster:
    """Its address, and nodes by number, of which 0 is the head."""

    def __init__(self, folder: Path, place: str) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder, self._nodes = folder, []
        head = ["--head", f"--port={self.port}", "--include-dashboard=false"]
        self._start(*head, f"--temp-dir={place}")

    def add(self) -> None:
        """Add a node."""
        self._start(f"--address={self.address}")

    def _start(self, *words: str) -> None:
        env = {**os.environ, "MULTIPOOL_CACHE": str(self._folder / "cache"), "OMP_NUM_THREADS": "1"}
        env["RAY_worker_niceness"] = "0"  # Ray's 15 would let a busy machine starve them
        common = ["--num-cpus=1", "--num-gpus=0", "--object-store-memory=100000000", "--block"]
        common += ["--disable-usage-stats", "--node-ip-address=127.0.0.1"]
        path = self._folder / f"node{len(self._nodes)}.log"
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words, *common]
        with path.open("w") as log:
            # A session of its own: the node's processes are then one group to end.
            node = subprocess.Popen(
                command, env=env, stdout=log, stderr=log, start_new_session=True
            )
        self._nodes.append(node)
        until(lambda: "block forever" in path.read_text() or node.poll() is not None, 120)
        assert node.poll() is None, path.read_text()

    def kill(self, number: int) -> None:
        """End a node as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self._nodes[number].pid, signal.SIGKILL)
        self._nodes[number].wait()

    def end(self) -> None:
        """End all nodes."""
        for number in reversed(range(len(self._nodes))):
            self.kill(number)


@contextmanager
def cluster(folder: Path, nodes: int) -> Iterator[Cluster]:
    """Yield a cluster of so many nodes of one core each."""
    # Sockets live in this folder, and their names must be short.
    place = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    made = None
    try:
        made = Cluster(folder, place)
        for _ in range(nodes - 1):
            made.add()
        yield made
    finally:
        if made is not None:
            made.end()
        shutil.rmtree(place, ignore_errors=True)
