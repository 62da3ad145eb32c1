"""Run one experiment: stream the images to the method, count what it got right, write it down."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import torch

from multipool.bench.run import checkpoint, claim
from multipool.bench.run import result as results
from multipool.bench.run.checkpoint import Checkpoint
from multipool.bench.run.environment import host, versions
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader, same_weights
from multipool.bench.run.result import Result
from multipool.bench.run.session import Session
from multipool.core import discard_parts
from multipool.ops.device import resolve

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


class NotWrittenError(OSError):
    """A run is done, but its result could not be written; it is here instead."""

    def __init__(self, error: OSError, result: Result) -> None:
        super().__init__(error.errno, error.strerror or str(error), error.filename)
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
    predictions: str | Path | None = None,
    claimed: bool = False,
) -> Result:
    """Run ``experiment`` and return what it measured; ``out`` gets ``result.json``.

    Every ``checkpoint_every`` batches (0: never) the state goes to ``out`` as well; ``resume``
    continues from there, bit for bit on a CPU, and returns a result that is complete as it is.
    Without it a folder that holds a run is refused, and so is one in which a run is going on,
    unless the caller has ``claimed`` it. Ctrl-C writes what was measured so far and raises
    :class:`Interrupted`. A ``loader`` shared by several runs loads datasets and models once.
    ``diagnose`` records the method's facts and its memory's quality over time; it changes nothing
    else. ``predictions`` is a file for the answer to every image.
    """
    if checkpoint_every < 0:
        raise ValueError(f"checkpoint_every must be at least 0, got {checkpoint_every}")
    if resume and out is None:
        raise ValueError("resume needs the folder of the run to continue, got no out")
    folder = None if out is None else Path(out)
    device = resolve(experiment.device)
    answers = None if predictions is None else Path(predictions)
    if answers is not None and answers.is_dir():
        raise ValueError(f"predictions must be a file to write, got the folder {answers}")
    job = _Job(experiment, loader or Loader(), device, progress, diagnose, answers)
    if folder is None:
        return _run(job)
    with nullcontext() if claimed else claim.held(folder):
        if not resume:
            _check_free(folder)
        elif (finished := _finished(folder, experiment)) is not None:
            return finished
        saved = checkpoint.read(folder, experiment.settings())
        for name in (checkpoint.FILE, results.FILE):
            discard_parts(folder / name)
        return _run(replace(job, out=folder, saved=saved, checkpoint_every=checkpoint_every))


@dataclass(frozen=True)
class _Job:
    """What is to be run, from where on, and what is written and told meanwhile."""

    experiment: Experiment
    loader: Loader
    device: torch.device
    progress: Callable[[Progress], None] | None
    diagnose: bool
    predictions: Path | None = None  # file for the answer to every image
    out: Path | None = None
    saved: Checkpoint | None = None
    checkpoint_every: int = 0  # batches; 0: never

    def tell(self, stage: str) -> None:
        """Say what is being loaded."""
        if self.progress is not None:
            self.progress(Progress(0, 0, None, stage))

    def due(self, batches: int) -> bool:
        """Return whether a checkpoint is due after so many batches."""
        return self.checkpoint_every > 0 and batches % self.checkpoint_every == 0


def _run(job: _Job) -> Result:
    session = _begin(job)
    _stream(session, job)
    if session.live is not None:
        session.live.finish()
    result = session.result(complete=True)
    if session.predictions is not None and job.predictions is not None:
        session.predictions.write(job.predictions)
    if job.out is not None:
        try:
            result.write(job.out)
        except OSError as error:  # hours may have gone into it: whoever called can still show it
            raise NotWrittenError(error, result) from error
        (job.out / checkpoint.FILE).unlink(missing_ok=True)
    return result


def _begin(job: _Job) -> Session:
    """Load everything; interrupted here, nothing was measured, and an older result stays."""
    started = time.perf_counter()
    try:
        session = Session(
            job.experiment,
            job.loader,
            job.device,
            job.tell,
            diagnose=job.diagnose,
            predictions=job.predictions is not None,
        )
    except KeyboardInterrupt:
        result = _nothing(job.experiment, job.device)
        if job.out is not None and not (job.out / results.FILE).exists():
            result.write(job.out)
        raise Interrupted(result) from None
    if job.saved is not None:
        session.restore(job.saved)
    session.seconds["load"] += time.perf_counter() - started
    return session


def _nothing(experiment: Experiment, device: torch.device) -> Result:
    """Return the result of a run that was ended before its first batch."""
    return Result(
        error=None,
        errors={},
        complete=False,
        settings=experiment.settings(),
        versions=versions(),
        seed=experiment.seed,
        samples=0,
        total=0,
        host=host(device),
    )


def _stream(session: Session, job: _Job) -> None:
    """Show the rest of the stream to the method; leave whole what was measured if interrupted."""
    told = 0.0
    total, out = len(session.stream), job.out
    try:
        with listening() as stop:
            for images in session.remaining():
                session.step(images)
                last = session.batches == total
                due = last or time.perf_counter() - told > _TELL_EVERY
                if job.progress is not None and due:
                    job.progress(Progress(session.batches, total, session.error()))
                    told = time.perf_counter()
                if stop.asked:
                    break
                if out is not None and not last and job.due(session.batches):
                    _write_checkpoint(session, out)
            session.finish()
        if stop.asked and session.batches < total:
            if out is not None:
                _write_checkpoint(session, out)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        result = session.result(complete=False)
        if out is not None:
            with suppress(OSError):
                result.write(out)
        raise Interrupted(result) from None


def _write_checkpoint(session: Session, out: Path) -> None:
    """Write a checkpoint; a full disk costs the checkpoint, not the run."""
    try:
        session.checkpoint().write(out)
    except OSError as error:
        note = f"a checkpoint could not be written: {error.strerror or error}"
        if note not in session.notes:
            session.notes.append(note)


def _check_free(out: Path) -> None:
    """Refuse a folder that holds a run, complete or not: nothing is overwritten unasked."""
    for name in (results.FILE, checkpoint.FILE):
        if (out / name).exists():
            raise ValueError(
                f"{out} holds a run already ({name}); go on with it by --resume, or use another "
                "--out"
            )


def _finished(out: Path, experiment: Experiment) -> Result | None:
    """Return the complete result of the same experiment and weights in ``out``, if it is there."""
    with suppress(FileNotFoundError):
        found = results.read(out / results.FILE)
        if found.complete:
            checkpoint.check_same(out / results.FILE, found.settings, experiment.settings())
            if not same_weights(experiment, found.weights):
                raise checkpoint.other_weights(out / results.FILE, experiment.weights_name())
            return found
    return None


class Stop:
    """Whether somebody asked for the end."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def listening() -> Iterator[Stop]:
    """Turn the first Ctrl-C into ``Stop.asked``; the second one interrupts at once.

    Only the main thread can listen for signals; elsewhere nothing is asked for.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.getsignal(signal.SIGINT) or signal.default_int_handler

    def ask(number: int, frame: FrameType | None) -> None:
        stop.asked = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
