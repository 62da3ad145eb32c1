"""Run one experiment: stream the images to the method, count what it got right, write it down."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from multipool.bench.run import checkpoint, interrupt
from multipool.bench.run import result as results
from multipool.bench.run.checkpoint import Checkpoint
from multipool.bench.run.environment import resolve
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.result import Result
from multipool.bench.run.session import Session, nothing
from multipool.core import discard_parts

CHECKPOINT_EVERY = 500  # batches
_TELL_EVERY = 0.2  # seconds; telling the error waits for the device


@dataclass(frozen=True)
class Progress:
    """How far a run is; ``error`` is over all samples so far, None before the first."""

    done: int  # batches
    total: int  # 0 while loading
    error: float | None
    stage: str = ""  # what is being loaded


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after what was measured so far has been written."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result


def run(
    experiment: Experiment,
    out: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    *,
    checkpoint_every: int = CHECKPOINT_EVERY,
    resume: bool = False,
    loader: Loader | None = None,
    diagnose: bool = False,
) -> Result:
    """Run ``experiment`` and return what it measured; ``out`` gets ``result.json``.

    Every ``checkpoint_every`` batches (0: never) the state goes to ``out`` as well; ``resume``
    continues from there, bit for bit on a CPU, and returns a result that is complete as it is.
    Ctrl-C writes what was measured so far and raises :class:`Interrupted`. A ``loader`` shared by
    several runs loads datasets and models once. ``diagnose`` records the method's facts and its
    memory's quality over time; it changes nothing else.
    """
    if checkpoint_every < 0:
        raise ValueError(f"checkpoint_every must be at least 0, got {checkpoint_every}")
    if resume and out is None:
        raise ValueError("resume needs the folder of the run to continue, got no out")
    device = resolve(experiment.device)
    saved = None
    if resume and out is not None:
        if (finished := _finished(Path(out), experiment)) is not None:
            return finished
        saved = checkpoint.read(out, experiment.settings())
    folder = None if out is None else Path(out)
    if folder is not None:
        for name in (checkpoint.FILE, results.FILE):
            discard_parts(folder / name)
    session = _begin(experiment, loader or Loader(), device, saved, folder, progress, diagnose)
    _stream(session, folder, progress, checkpoint_every)
    if session.live is not None:
        session.live.finish()
    result = session.result(complete=True)
    if folder is not None:
        result.write(folder)
        (folder / checkpoint.FILE).unlink(missing_ok=True)
    return result


def _begin(
    experiment: Experiment,
    loader: Loader,
    device: torch.device,
    saved: Checkpoint | None,
    out: Path | None,
    progress: Callable[[Progress], None] | None,
    diagnose: bool,
) -> Session:
    """Load everything; interrupted here, nothing was measured, and an older result stays."""
    started = time.perf_counter()

    def tell(stage: str) -> None:
        if progress is not None:
            progress(Progress(0, 0, None, stage))

    try:
        session = Session(experiment, loader, device, tell, diagnose=diagnose)
    except KeyboardInterrupt:
        result = nothing(experiment, device)
        if out is not None and not (out / results.FILE).exists():
            result.write(out)
        raise Interrupted(result) from None
    if saved is not None:
        session.restore(saved)
    session.seconds["load"] += time.perf_counter() - started
    return session


def _stream(
    session: Session,
    out: Path | None,
    progress: Callable[[Progress], None] | None,
    checkpoint_every: int,
) -> None:
    """Show the rest of the stream to the method; leave whole what was measured if interrupted."""
    told = 0.0
    total = len(session.stream)
    try:
        with interrupt.listening() as stop:
            for images in session.remaining():
                session.step(images)
                last = session.batches == total
                if progress is not None and (last or time.perf_counter() - told > _TELL_EVERY):
                    progress(Progress(session.batches, total, session.tally.error()))
                    told = time.perf_counter()
                if stop.asked:
                    break
                if out is not None and not last and _due(session.batches, checkpoint_every):
                    session.checkpoint().write(out)
            session.finish()
        if stop.asked and session.batches < total:
            if out is not None:
                session.checkpoint().write(out)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        result = session.result(complete=False)
        if out is not None:
            result.write(out)
        raise Interrupted(result) from None


def _due(batches: int, every: int) -> bool:
    return every > 0 and batches % every == 0


def _finished(out: Path, experiment: Experiment) -> Result | None:
    """Return the complete result of the same experiment in ``out``, if it is there."""
    with suppress(FileNotFoundError):
        found = results.read(out / results.FILE)
        if found.complete:
            checkpoint.check_same(out / results.FILE, found.settings, experiment.settings())
            return found
    return None
