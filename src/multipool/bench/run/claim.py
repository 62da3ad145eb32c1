"""Claims on folders: a file that only one process can create, and that goes stale if it dies."""

from __future__ import annotations

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

try:
    import fcntl
except ImportError:  # not on Windows: there two that find a dead claim at once may both take it
    fcntl = None  # type: ignore[assignment]

FILE = "claim.json"
BEAT = 10.0  # seconds between signs of life
STALE = 120.0  # seconds without one after which a claim may be taken over


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
        mine = Holder(machine(), os.getpid(), _started(os.getpid()), secrets.token_hex(8))
        if not _create(path, mine):
            # A claim is only ever removed under the lock, so the one removed is the one looked at.
            with _alone(folder):
                if is_stale(path, self._stale):
                    path.unlink(missing_ok=True)
                if not _create(path, mine):
                    return False
        self._held[path] = mine
        return True

    def release(self, folder: Path) -> None:
        """Give up the claim on ``folder``, unless somebody has taken it over meanwhile."""
        path = folder / FILE
        mine = self._held.pop(path, None)
        if mine is None or not folder.is_dir():
            return
        with _alone(folder):
            if holder(path) == mine:
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


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the claim on ``folder`` for a while, or say who does, or why nobody can."""
    fresh = not folder.exists()
    claims = Claims()
    try:
        try:
            taken = claims.take(folder)
        except OSError as error:
            raise ValueError(
                f"cannot write into {folder}: {error.strerror}; choose another folder with --out"
            ) from None
        if not taken:
            found = holder(folder / FILE)
            who = "" if found is None else f" (process {found.pid} on {found.host.split()[0]})"
            raise ValueError(
                f"a run is going on in {folder}{who}; wait for its end, or use another --out"
            )
        yield
    finally:
        claims.close()
        if fresh:
            with suppress(OSError):
                folder.rmdir()  # nothing was written


def holder(path: Path) -> Holder | None:
    """Return who holds a claim; None if nobody does or it cannot be read (yet)."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Holder(**content)
    except (OSError, ValueError, TypeError):
        return None


def is_stale(path: Path, stale: float = STALE) -> bool:
    """Return whether a claim's process is gone: known to be dead, or silent for too long.

    A file that has vanished is not stale: whoever creates the next one holds the claim.
    """
    found = holder(path)
    if found is not None and found.host == machine():
        return _started(found.pid) != found.started
    try:
        last = path.stat().st_mtime
    except FileNotFoundError:
        return False
    return _now_at(path.parent) - last > stale


def machine() -> str:
    """Return a name for the set of processes whose numbers can be compared with ours."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _create(path: Path, mine: Holder) -> bool:
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
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
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which the system gives back if the process dies.

    Without one (Windows, some network file systems) what is done is done unlocked.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
