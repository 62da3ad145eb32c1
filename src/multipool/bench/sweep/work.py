"""How a sweep is carried out; one run of it, whatever happens in it, and how that ended."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from multipool.bench.run import checkpoint
from multipool.bench.run import result as results
from multipool.bench.run.loader import Loader, same_weights
from multipool.bench.run.result import Result
from multipool.bench.run.runner import CHECKPOINT_EVERY, Progress, run
from multipool.bench.sweep.planned import FAILED, Planned, finished
from multipool.core import write_json

DONE, BROKEN, STOPPED = "done", "failed", "interrupted"


@dataclass(frozen=True)
class Options:
    """Processes and threads, patience, what a run needs of a cluster; no result depends on them.

    None means: ``workers`` as many as there are GPUs, or cores without one; ``threads`` the cores
    shared out among them; ``gpus`` one where the cluster has some and the run may use it.
    """

    workers: int | None = None  # processes of the local backend; several may share a GPU
    threads: int | None = None  # of each process
    checkpoint_every: int = CHECKPOINT_EVERY  # batches
    retries: int = 2  # of a run whose worker died
    ray_address: str = "auto"
    cpus: float = 1.0  # a run needs, on a Ray cluster
    gpus: float | None = None  # a run needs, on a Ray cluster; 0.25: four share one

    def __post_init__(self) -> None:
        for name, low in (("workers", 1), ("threads", 1), ("checkpoint_every", 0), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < low:
                raise ValueError(f"{name} must be at least {low}, got {value}")
        if not self.cpus > 0:
            raise ValueError(f"cpus must be greater than 0, got {self.cpus}")
        if self.gpus is not None and self.gpus < 0:
            raise ValueError(f"gpus must be at least 0, got {self.gpus}")


@dataclass(frozen=True)
class Outcome:
    """How a run ended; ``content`` is its ``result.json`` where the folder is not shared."""

    state: str
    error: float | None = None  # per cent
    sentence: str = ""  # what went wrong
    details: str = ""  # where
    seconds: float = 0.0
    content: dict[str, Any] | None = None
    # Whether the process may be trusted with another run: after a failure of its GPU it may not,
    # and the run may be tried again.
    reusable: bool = True


def execute(
    planned: Planned,
    folder: Path,
    loader: Loader,
    tell: Callable[[Progress], None] | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
) -> Outcome:
    """Run ``planned`` into ``folder``; go on from a checkpoint, or start again if it is no use."""
    began = time.perf_counter()
    try:
        same_weights(planned.experiment, {})  # an unreadable file of weights costs no result
        if finished(planned, folder) is None:
            (folder / results.FILE).unlink(missing_ok=True)  # partial, damaged, another model's
        try:
            result = _run(planned, folder, loader, tell, checkpoint_every)
        except Exception:
            if not (folder / checkpoint.FILE).exists():
                raise
            # It may be of another version, or keep what broke the run: begin from the start.
            (folder / checkpoint.FILE).unlink()
            result = _run(planned, folder, loader, tell, checkpoint_every)
    except KeyboardInterrupt:
        return Outcome(STOPPED)
    except Exception as error:
        gpu_failed = isinstance(error, RuntimeError) and torch.cuda.is_initialized()
        return Outcome(
            BROKEN,
            sentence=_sentence(error),
            details=traceback.format_exc(),
            seconds=time.perf_counter() - began,
            reusable=not gpu_failed,
        )
    return Outcome(DONE, error=result.error, seconds=time.perf_counter() - began)


def write_failure(planned: Planned, folder: Path, outcome: Outcome) -> None:
    """Write ``failed.json``: what went wrong, where and when."""
    content = {
        "run": planned.name,
        "error": outcome.sentence,
        "traceback": outcome.details,
        "settings": planned.settings,
        "time": time.time(),
    }
    write_json(folder / FAILED, content)


def _run(
    planned: Planned,
    folder: Path,
    loader: Loader,
    tell: Callable[[Progress], None] | None,
    checkpoint_every: int,
) -> Result:
    return run(
        planned.experiment,
        folder,
        tell,
        checkpoint_every=checkpoint_every,
        resume=True,
        loader=loader,
        claimed=True,  # by the sweep
    )


def _sentence(error: Exception) -> str:
    """Return an error in one line; what is not a sentence of ours is named by its kind.

    >>> _sentence(KeyError("lr"))
    "KeyError: 'lr'"
    """
    text = " ".join(str(error).split())
    if isinstance(error, ValueError | FileNotFoundError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
