"""Claims on runs: a file that only one process can create, and that goes stale if it dies."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "claim.json"
BEAT = 10.0  # seconds between signs of life
STALE = 120.0  # seconds without one after which a claim may be taken over
_LOCK = ".takeover"


@dataclass(frozen=True)
class Holder:
    """Who holds a claim; ``token`` tells two claims of one process apart."""

    host: str
    pid: int
    started: str  # distinguishes a process from a later one with the same number
    token: str


class Claims:
    """The claims of this process; a thread keeps them alive until they are released."""

    def __init__(self, beat: float = BEAT, stale: float = STALE) -> None:
        self._stale = stale
        self._held: dict[Path, Holder] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, args=(beat,), daemon=True)
        self._thread.start()

    def take(self, folder: Path) -> bool:
        """Claim ``folder``; False if a living process holds it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        mine = Holder(host(), os.getpid(), _started(os.getpid()), secrets.token_hex(8))
        if not _create(path, mine):
            if not is_stale(path, self._stale):
                return False
            # Two processes may both have found it stale: only one at a time looks again and acts.
            with _alone(folder.parent / _LOCK):
                if not is_stale(path, self._stale):
                    return False
                path.unlink(missing_ok=True)
                if not _create(path, mine):
                    return False
        self._held[path] = mine
        return True

    def release(self, folder: Path) -> None:
        """Give up the claim on ``folder``, unless somebody has taken it over meanwhile."""
        path = folder / FILE
        mine = self._held.pop(path, None)
        if mine is not None and holder(path) == mine:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give up every claim."""
        self._closing.set()
        self._thread.join()
        for path in list(self._held):
            self.release(path.parent)

    def _keep(self, beat: float) -> None:
        while not self._closing.wait(beat):
            for path in list(self._held):
                with suppress(OSError):
                    os.utime(path)


def holder(path: Path) -> Holder | None:
    """Return who holds a claim; None if nobody does or it cannot be read (yet)."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Holder(**content)
    except (OSError, ValueError, TypeError):
        return None


def is_stale(path: Path, stale: float = STALE) -> bool:
    """Return whether a claim's process is gone: known to be dead, or silent for too long."""
    found = holder(path)
    if found is not None and found.host == host():
        return _started(found.pid) != found.started
    try:
        last = path.stat().st_mtime
    except FileNotFoundError:
        return True
    return _now_at(path.parent) - last > stale


def host() -> str:
    """Return a name for the set of processes whose numbers can be compared with ours."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _create(path: Path, mine: Holder) -> bool:
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(vars(mine), file)
    return True


def _started(pid: int) -> str:
    """Return when a process started, in the system's own units; "" if it is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
        return "alive" if _alive(pid) else ""
    # The name in brackets may hold anything; the state and the start follow its last bracket.
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _now_at(folder: Path) -> float:
    """Return the time by the clock that dates the files in ``folder``, which may be a server's."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock.") as file:
        return os.stat(file.name).st_mtime


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that the system gives back if the process dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
