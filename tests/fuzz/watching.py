"""Run a call and see what else it does: time, memory, files outside its folder, programs."""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

SECONDS, STUCK = 5.0, 60.0  # of computing; of waiting for whatever else
MEMORY = 400 * 2**20  # bytes more than before the call

_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty")
_WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")


class Hang(BaseException):
    """Not an ``Exception``: no reader may swallow it."""


class Watch:
    """Audits this process while a call runs; a hook cannot be taken back, so there is one."""

    def __init__(self) -> None:
        self.folder: str | None = None  # None: not looking
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        if event in _PROGRAMS or event == "socket.connect":
            self.seen.append(f"{event} {arguments[0]!r}")
        elif event == "open":
            path, mode, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
                self._written(event, path)
        elif event in _WRITES:
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                self._written(event, path)

    def _written(self, event: str, path: object) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            place = os.path.abspath(os.fsdecode(path))
            if not place.startswith(f"{self.folder}{os.sep}") and place != os.devnull:
                self.seen.append(f"{event} of {place}")


_WATCH: list[Watch] = []


def outcome(call: Callable[[], object], folder: Path) -> tuple[object, BaseException | None]:
    """Return the call's value or its exception; complain about everything else it did."""
    if not _WATCH:
        _WATCH.append(Watch())
    watch, value, error = _WATCH[0], None, None
    before = _peak(reset=True)
    watch.seen, watch.folder = [], str(folder.resolve())
    started = time.process_time()
    try:
        with _limited():
            value = call()
    except (Exception, Hang) as caught:
        error = caught
    finally:
        watch.folder = None
    spent, grown = time.process_time() - started, _peak() - before
    assert not isinstance(error, Hang), str(error)
    assert spent < SECONDS, f"it took {spent:.1f} s of computing"
    assert not watch.seen, f"it did more than read: {watch.seen}"
    assert grown < MEMORY, f"it took {grown / 2**20:.0f} MB"
    return value, error


@contextmanager
def _limited():
    """Stop a call that computes for too long or waits for ever."""

    def stop(number: int, frame: object) -> None:
        raise Hang(f"it did not come back ({signal.Signals(number).name})")

    old = [signal.signal(number, stop) for number in (signal.SIGVTALRM, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, STUCK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGVTALRM, signal.SIGALRM), old, strict=True):
            signal.signal(number, handler)


def _peak(reset: bool = False) -> int:
    """Return the most memory this process had since the last reset, in bytes; 0 if unknown."""
    try:
        if reset:
            gc.collect(0)
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def sentence(error: BaseException, name: str) -> str:
    """Return what is wrong with an error's message as one sentence about the file; "" if fine."""
    said = str(error)
    if type(error) not in (ValueError, FileNotFoundError):
        return f"it raised {type(error).__name__}: {said[:300]}"
    if not said.strip() or "\n" in said or "Traceback" in said or 'File "' in said:
        return f"this is not one sentence: {said[:300]!r}"
    if len(said) > 1000:
        return f"a sentence of {len(said)} characters: {said[:300]!r}"
    return "" if name in said else f"it does not name {name}: {said[:300]}"
