"""What is still to do, who does it, and how it ended: the one place that hands out runs."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from multipool.bench.run.claim import Claims, machine
from multipool.bench.run.result import Result
from multipool.bench.run.runner import Progress
from multipool.bench.sweep.planned import FAILED, Planned, failure, finished
from multipool.bench.sweep.work import BROKEN, DONE, STOPPED, Outcome, write_failure
from multipool.core import write_json

JOURNAL = "journal.jsonl"
POLL = 1.0  # seconds between two looks at runs that another sweep is doing
FOUND, STARTED, RUNNING, LOST = "found", "started", "running", "lost"


@dataclass(frozen=True)
class News:
    """Something happened to a run: ``found`` says that it was done before."""

    run: Planned
    state: str
    step: Progress | None = None
    outcome: Outcome | None = None


Tell = Callable[[News], None]


class SweepLedger:
    """The runs of one sweep; a backend takes them from here and brings their outcomes back.

    A run that is handed out is claimed, so that no other sweep on the same folder does it too. A
    run claimed by another sweep is looked at again until it is done, failed, or abandoned.
    """

    def __init__(
        self, runs: Sequence[Planned], out: Path, tell: Tell | None = None, retries: int = 2
    ) -> None:
        self.out, self.retries = out, retries
        self.stopping = False  # set by a backend that interrupts its runs
        self.outcomes: dict[str, Outcome] = {}
        self.found: set[str] = set()  # done before, or by another sweep
        self._tell = tell or (lambda news: None)
        self._began = time.time()
        self._claims = Claims()
        self._runs = {run.name: run for run in runs}
        # Neighbours load the same, so a worker that goes down the list loads once.
        self._pending = deque(sorted(self._runs.values(), key=lambda run: run.load_key))
        self._elsewhere: list[Planned] = []
        self._looked = 0.0
        self._mine: set[str] = set()
        self._losses: dict[str, int] = {}

    def __enter__(self) -> SweepLedger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._claims.close()

    @property
    def settled(self) -> bool:
        """Return whether every run has an outcome."""
        return len(self.outcomes) == len(self._runs)

    def next(self, load_key: str | None = None) -> Planned | None:
        """Return a claimed run, if possible one that loads ``load_key``; None: none just now."""
        if not self._pending and time.monotonic() - self._looked > POLL:
            self._pending.extend(self._elsewhere)
            self._elsewhere.clear()
            self._looked = time.monotonic()
        while self._pending:
            run = self._pick(load_key)
            if self._take(run):
                return run
        return None

    def progress(self, run: Planned, step: Progress) -> None:
        """Pass on how far a run is."""
        self._tell(News(run, RUNNING, step))

    def settle(self, run: Planned, outcome: Outcome) -> None:
        """Note how a run that was handed out ended, and give up its claim."""
        if outcome.state == STOPPED and not self.stopping:
            self.lost(run, "somebody interrupted it")
            return
        # A GPU that is shared fails for what others do: memory taken, a context torn down.
        if outcome.state == BROKEN and not outcome.reusable and self._again(run, outcome.sentence):
            return
        folder = run.folder(self.out)
        if outcome.state == DONE:
            if outcome.content is not None:
                Result(**outcome.content).write(folder)
            (folder / FAILED).unlink(missing_ok=True)
        elif outcome.state == BROKEN:
            write_failure(run, folder, outcome)
        self._note(run, outcome.state, outcome.sentence)
        self._mine.discard(run.name)
        self._claims.release(folder)
        if outcome.state != STOPPED:
            self._close(run, outcome, outcome.state)

    def lost(self, run: Planned, reason: str) -> None:
        """Queue a run again whose worker died; after ``retries`` more times it has failed."""
        if (result := finished(run, run.folder(self.out))) is not None:
            self.settle(run, Outcome(DONE, error=result.error))
        elif not self._again(run, reason):
            times = self._losses[run.name]
            told = (
                f"its worker died {times} time{'s' if times > 1 else ''}, the last time: {reason}"
            )
            self.settle(run, Outcome(BROKEN, sentence=told))

    def _again(self, run: Planned, reason: str) -> bool:
        """Queue a run behind the others, unless it has had all its tries."""
        self._losses[run.name] = self._losses.get(run.name, 0) + 1
        if self._losses[run.name] > self.retries:
            return False
        self._note(run, LOST, reason)
        self._tell(News(run, LOST, outcome=Outcome(BROKEN, sentence=reason)))
        self._pending.append(run)
        return True

    def _pick(self, load_key: str | None) -> Planned:
        for run in self._pending:
            if run.load_key == load_key:
                self._pending.remove(run)
                return run
        return self._pending.popleft()

    def _take(self, run: Planned) -> bool:
        """Claim a run unless it is settled already; True if it is ours to do."""
        folder = run.folder(self.out)
        if run.name not in self._mine:
            if self._known(run):
                return False
            if not self._claims.take(folder):
                self._elsewhere.append(run)
                return False
            if self._known(run):  # finished between the look and the claim
                self._claims.release(folder)
                return False
            self._mine.add(run.name)
        (folder / FAILED).unlink(missing_ok=True)
        run.describe(self.out)
        self._note(run, STARTED)
        self._tell(News(run, STARTED))
        return True

    def _known(self, run: Planned) -> bool:
        """Settle a run that is done, or that another sweep has just seen fail."""
        folder = run.folder(self.out)
        if (result := finished(run, folder)) is not None:
            self.found.add(run.name)
            self._close(run, Outcome(DONE, error=result.error), FOUND)
            return True
        failed = failure(folder)
        if failed is None or float(failed.get("time", 0)) < self._began:
            return False
        self._close(run, Outcome(BROKEN, sentence=str(failed["error"])), BROKEN)
        return True

    def _close(self, run: Planned, outcome: Outcome, state: str) -> None:
        self.outcomes[run.name] = outcome
        self._tell(News(run, state, outcome=outcome))

    def _note(self, run: Planned, event: str, text: str = "") -> None:
        """Add one line to the journal; lines this short are written whole or not at all."""
        line = {"time": round(time.time(), 3), "event": event, "run": run.name}
        line |= {"host": machine().split()[0], "pid": os.getpid()}
        if text:
            line["text"] = text[:500]
        self.out.mkdir(parents=True, exist_ok=True)
        with (self.out / JOURNAL).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def mark_shared(out: Path, token: str) -> Path:
    """Write a file by which a worker elsewhere can tell whether it sees the same folder."""
    path = out / f".shared-{token}"
    write_json(path, token)
    return path
