"""A service in a process of its own, as operators run it.

Used by the load, kill and soak tests; also a tool: see ``soak.py`` and ``kills.py``.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


class Zygote:
    """Starts services by forking a process that has imported everything; see ``zygote.py``."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("zygote.py"))]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, text=True)

    def ask(self, **request: object) -> int:
        """Return its answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@functools.cache
def zygote() -> Zygote:
    """Return the one zygote of this process; it ends when its input does."""
    return Zygote()


class Process:
    """``multipool serve`` with some options; killed, stopped and started at will.

    ``fresh`` starts the command itself, which takes seconds; otherwise it is forked.
    """

    def __init__(self, state_dir: Path, *options: str, fresh: bool = False) -> None:
        self.state_dir, self.fresh = state_dir, fresh
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = state_dir.parent / f"{state_dir.name}.log"
        place = ["--port", str(self.port), "--state-dir", str(state_dir)]
        self.args = ["serve", *place, *options]

    def start(self, seconds: float = 120.0) -> None:
        """Start it and wait until it answers."""
        self._child: subprocess.Popen[bytes] | None = None
        if self.fresh:
            command, env = (
                [sys.executable, "-m", "multipool"],
                {**os.environ, "OMP_NUM_THREADS": "1"},
            )
            with self.log.open("ab") as log:
                self._child = subprocess.Popen(command + self.args, stdout=log, stderr=log, env=env)
            self.pid = self._child.pid
        else:
            self.pid = zygote().ask(log=str(self.log), args=self.args)
        until = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                ended = self._child is not None and self._child.poll() is not None
                if ended or time.monotonic() > until:
                    raise RuntimeError(self.log.read_text()[-2000:]) from None
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """End it as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Ask it to end; return its exit status."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Return its exit status once it has ended."""
        return zygote().ask(wait=self.pid) if self._child is None else self._child.wait(120)

    def events(self, kind: str) -> list[dict[str, object]]:
        """Return the events of a kind that it has logged."""
        lines = self.log.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in found if line.get("kind") == kind]
