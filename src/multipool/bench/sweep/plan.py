"""What a sweep will do: which runs are done, which are not, and how long the rest may take."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from multipool.bench.run.environment import wait
from multipool.bench.run.loader import Loader
from multipool.bench.run.session import Session
from multipool.bench.sweep.planned import Planned, failure, finished
from multipool.ops.device import resolve

_APART = ("seed", "memory_options")  # settings that hardly change how long a run takes
_TRIAL_BATCHES = 3


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep by their state, and the seconds of work that are known to be left."""

    done: tuple[Planned, ...]
    failed: dict[str, str]  # name -> sentence; these are tried again
    todo: tuple[Planned, ...]
    seconds: dict[str, float] = field(default_factory=dict)  # name -> estimate for one run

    @property
    def unknown(self) -> int:
        """Return how many runs have no estimate."""
        return sum(run.name not in self.seconds for run in self.todo)

    def left(self, workers: int) -> float | None:
        """Return the seconds that ``workers`` need if they do not slow each other down.

        Runs without an estimate count as the mean of the others; None: nothing is known.
        """
        known = [self.seconds[run.name] for run in self.todo if run.name in self.seconds]
        if not known:
            return 0.0 if not self.todo else None
        total = statistics.fmean(known) * len(self.todo)
        return max(total / max(1, min(workers, len(self.todo))), max(known))


def make_plan(runs: Sequence[Planned], out: str | Path) -> Plan:
    """Return what is done in ``out`` and what is not; estimates come from what is done."""
    out = Path(out)
    done, todo, failed = [], [], {}
    spent: dict[str, list[float]] = {}
    for run in runs:
        folder = run.folder(out)
        if (result := finished(run, folder)) is not None:
            done.append(run)
            seconds = sum(result.timing.get(part, 0.0) for part in ("load", "stream"))
            spent.setdefault(_kind(run), []).append(seconds)
            continue
        todo.append(run)
        if (broken := failure(folder)) is not None:
            failed[run.name] = str(broken["error"])
    means = {kind: statistics.fmean(values) for kind, values in spent.items()}
    left = {run.name: means[_kind(run)] for run in todo if _kind(run) in means}
    return Plan(tuple(done), failed, tuple(todo), left)


def with_trials(
    planned: Plan,
    limit: float = 60.0,
    loader: Loader | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Return the plan with estimates for kinds of runs never done: a few batches of each.

    Trials stop after ``limit`` seconds; what cannot be tried (its data are missing here) is left
    without an estimate, and the run itself will say why.
    """
    loader = loader or Loader()
    began = time.perf_counter()
    tried: dict[str, float | None] = {}
    seconds = dict(planned.seconds)
    for run in sorted(planned.todo, key=lambda run: run.load_key):
        kind = _kind(run)
        if run.name in seconds:
            continue
        if kind not in tried and time.perf_counter() - began < limit:
            tell(f"trying {run.name}")
            tried[kind] = trial(run, loader)
        guess = tried.get(kind)
        if guess is not None:
            seconds[run.name] = guess
    return Plan(planned.done, planned.failed, planned.todo, seconds)


def trial(run: Planned, loader: Loader) -> float | None:
    """Return how long a run may take, from its first batches; None if it cannot begin."""
    try:
        session = Session(run.experiment, loader, resolve(run.experiment.device))
        images = session.remaining()
        count = min(_TRIAL_BATCHES + 1, len(session.stream))
        for index in range(count):
            session.step(next(images))
            if index == 0:  # the first batch warms up
                wait(session.device)
                began = time.perf_counter()
        wait(session.device)
    except Exception:  # whatever it is, the run meets it again and reports it
        return None
    each = (time.perf_counter() - began) / max(1, count - 1)
    return each * len(session.stream)


def duration(seconds: float) -> str:
    """Return a time for people.

    >>> duration(40), duration(200), duration(9000)
    ('40 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{max(1, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _kind(run: Planned) -> str:
    shared = {key: value for key, value in run.settings.items() if key not in _APART}
    return json.dumps(shared, sort_keys=True)
