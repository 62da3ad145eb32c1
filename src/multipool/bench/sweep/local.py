"""The local backend: worker processes that load once and run what they are given."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import torch

from multipool.bench.run.runner import Progress
from multipool.bench.sweep.ledger import POLL, SweepLedger
from multipool.bench.sweep.planned import Planned
from multipool.bench.sweep.work import STOPPED, Options, execute

_GRACE = 60.0  # seconds that an interrupted worker has to write its checkpoint
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_local(ledger: SweepLedger, runs: list[Planned], options: Options) -> None:
    """Do every run of ``ledger`` in worker processes; Ctrl-C lets them write checkpoints."""
    count = min(options.workers or default_workers(runs), len(runs))
    # A run that names its GPU must see them all; the others are spread over them.
    spread = not any(":" in run.experiment.device for run in runs)
    crew = _Crew(ledger, options, count, spread)
    try:
        crew.work()
    except KeyboardInterrupt:
        ledger.stopping = True
        crew.stop()
        raise
    finally:
        crew.close()


def default_workers(runs: list[Planned]) -> int:
    """Return one worker per GPU where runs use them, else one per core."""
    gpus = torch.cuda.device_count()
    if gpus and any(run.experiment.device != "cpu" for run in runs):
        return gpus
    return cores()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """One process, seen from the driver."""

    def __init__(self, number: int, count: int, options: Options, spread: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        threads = options.threads or max(1, cores() // count)
        with _environment(_places(number, threads, spread)):
            self.process: SpawnProcess = context.Process(
                target=_serve, args=(theirs, threads, options.checkpoint_every), daemon=True
            )
            self.process.start()
        theirs.close()  # so that the line ends when the process does
        self.run: Planned | None = None
        self.load_key: str | None = None

    def give(self, run: Planned, folder: Path) -> None:
        self.run, self.load_key = run, run.load_key
        with suppress(OSError):  # a dead worker is noticed where its messages are read
            self.line.send((run, folder))

    def close(self) -> None:
        self.line.close()  # a living worker ends when the line does
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class _Crew:
    """All workers: gives them runs, and replaces those that die."""

    def __init__(self, ledger: SweepLedger, options: Options, count: int, spread: bool) -> None:
        self.ledger, self.options, self.count, self.spread = ledger, options, count, spread
        self.workers: list[_Worker | None] = [None] * count
        self.idle_deaths = 0

    def work(self) -> None:
        while not self.ledger.settled:
            for number in range(self.count):
                self._employ(number)
            lines = [worker.line for worker in self._present()]
            if not lines:
                if not self.ledger.settled:
                    time.sleep(POLL)  # the rest is being done by another sweep
                continue
            for ready in wait(lines, timeout=POLL):
                self._hear(next(w for w in self._present() if w.line is ready))

    def stop(self) -> None:
        """Ask every worker to write a checkpoint, and wait until it has."""
        busy = [worker for worker in self._present() if worker.run is not None]
        for worker in busy:
            with suppress(OSError):
                worker.line.send(None)
        deadline = time.monotonic() + _GRACE
        while any(w.run for w in busy) and (left := deadline - time.monotonic()) > 0:
            for ready in wait([w.line for w in busy if w.run], timeout=left):
                self._hear(next(w for w in busy if w.line is ready))

    def close(self) -> None:
        for worker in self._present():
            worker.close()

    def _present(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker is not None]

    def _employ(self, number: int) -> None:
        """Give a worker that has nothing to do a run; start it if there is one and it is not."""
        worker = self.workers[number]
        if worker is not None and worker.run is not None:
            return
        run = self.ledger.next(worker.load_key if worker else None)
        if run is None:
            return
        if worker is None:
            worker = self.workers[number] = _Worker(number, self.count, self.options, self.spread)
        worker.give(run, run.folder(self.ledger.out))

    def _hear(self, worker: _Worker) -> None:
        try:
            said = worker.line.recv()
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self._bury(worker)
            return
        run = worker.run
        if run is None:
            return
        if isinstance(said, Progress):
            self.ledger.progress(run, said)
            return
        worker.run = None
        self.idle_deaths = 0
        self.ledger.settle(run, said)
        if not said.reusable or said.state == STOPPED:
            self._dismiss(worker)

    def _bury(self, worker: _Worker) -> None:
        """Queue the run of a dead worker again; give up if workers cannot even start."""
        run, worker.run = worker.run, None
        self._dismiss(worker)
        reason = _cause(worker.process.exitcode)
        if run is None or self.ledger.stopping:
            return
        self.ledger.lost(run, reason)
        self.idle_deaths += 1
        if self.idle_deaths > self.count * (self.options.retries + 1) + 10:
            raise OSError(f"no worker process lives long enough to finish a run: {reason}")

    def _dismiss(self, worker: _Worker) -> None:
        worker.close()
        self.workers[self.workers.index(worker)] = None


def _serve(line: Connection, threads: int, checkpoint_every: int) -> None:
    """Be a worker: run what comes down the line until it ends."""
    # A terminal's Ctrl-C goes to its whole process group; here the driver says when to stop.
    with suppress(OSError, AttributeError):  # Windows has no sessions
        os.setsid()
    torch.set_num_threads(threads)
    orders: queue.Queue[tuple[Planned, Path] | None] = queue.Queue()
    threading.Thread(target=_listen, args=(line, orders), daemon=True).start()
    from multipool.bench.run.loader import Loader

    loader = Loader()
    with suppress(KeyboardInterrupt, OSError):
        while (order := orders.get()) is not None:
            run, folder = order
            line.send(execute(run, folder, loader, line.send, checkpoint_every))


def _listen(line: Connection, orders: queue.Queue[tuple[Planned, Path] | None]) -> None:
    """Pass orders on; interrupt the work if asked to, end it if the driver is gone."""
    try:
        while (order := line.recv()) is not None:
            orders.put(order)
    except (EOFError, OSError):
        os._exit(1)
    orders.put(None)
    _thread.interrupt_main()
    with suppress(EOFError, OSError):
        line.recv()  # nothing more is said: this ends with the driver
    os._exit(1)


def _places(number: int, threads: int, spread: bool) -> dict[str, str]:
    """Return the variables a worker starts with: its threads, and its GPU where there are many."""
    chosen = {name: str(threads) for name in _THREADS}
    count = torch.cuda.device_count()
    if spread and count > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
        chosen["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number % count].strip()
    return chosen


@contextmanager
def _environment(chosen: dict[str, str]) -> Iterator[None]:
    """Set variables while a process is started, which inherits them."""
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _cause(code: int | None) -> str:
    """Say why a process ended.

    >>> _cause(-9), _cause(3)
    ('killed by SIGKILL (out of memory?)', 'ended with code 3')
    """
    if code is not None and code < 0:
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{hint}"
    return f"ended with code {code}"
