"""One run in progress: the stream, the method, the counts, and what they say so far."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multipool import methods
from multipool.bench.run.checkpoint import Checkpoint, other_weights
from multipool.bench.run.environment import host, versions
from multipool.bench.run.experiment import Experiment, needs_source
from multipool.bench.run.live import Live
from multipool.bench.run.loader import Loader, model_digest
from multipool.bench.run.result import Result
from multipool.bench.run.sources import source_for
from multipool.bench.run.tally import Ints, Tally
from multipool.data import Stream

STRETCH = 640  # samples of one point of the error curve, at most
POINTS = 15  # of the curve of a short stream, at least
# A stream that changes its domain more often than this has no boundaries worth listing.
_MOST_CHANGES = 1000


class Session:
    """The state of a run between two batches."""

    def __init__(
        self,
        experiment: Experiment,
        loader: Loader,
        device: torch.device,
        tell: Callable[[str], None] = lambda stage: None,
        *,
        diagnose: bool = False,
    ) -> None:
        self.experiment, self.device = experiment, device
        if device.type == "cuda":  # a worker does many runs, and each reports its own peak
            gc.collect()  # the last run's adapter is a ring of references, and holds its graphs
            torch.cuda.reset_peak_memory_stats(device)
        tell("dataset and model")
        dataset = loader.dataset(experiment)
        model = loader.model(experiment, dataset.num_classes, device)
        self.weights = {"name": experiment.weights_name(), "digest": model_digest(model)}
        self.notes: list[str] = []
        source = None
        if needs_source(experiment):
            tell("source data")
            source = source_for(experiment, dataset, model, self.weights["digest"], self.notes)
        self.stream = Stream(dataset, experiment.stream(), device=device)
        self.stream.prepare(tell)
        self.adapter = methods.adapt(
            model,
            experiment.method,
            experiment.memory,
            num_classes=dataset.num_classes,
            source=source,
            seed=experiment.seed,
            guard=experiment.guard,
            fallback=experiment.fallback,
            options=experiment.method_options(),
            memory_options=experiment.memory_options or None,
            precision=experiment.precision,
            compile=experiment.compile,
            reset_every=experiment.reset_every,
        )
        self.rounds = experiment.rounds if experiment.protocol == "recurring" else 1
        self.groups = _groups(self.stream, self.rounds)
        most = max(1, STRETCH // experiment.batch_size)
        stretch = min(most, max(1, len(self.stream) // POINTS)) * experiment.batch_size
        count = self.rounds * len(self.stream.domains)
        self.tally = Tally(self.stream.labels, self.groups, count, stretch, device)
        self.batches = 0
        self.trace: list[dict[str, Any]] = []
        self.seconds = {"load": 0.0, "stream": 0.0}
        # Not everything that is counted is part of an adapter's state: what an earlier process
        # counted is added to what this one counts.
        self._earlier: dict[str, dict[str, float]] = {}
        self._base = self._counters()
        self.live: Live | None = None
        if diagnose:
            self.live = Live(self.adapter, stretch, self.counters, experiment.seed)
            self.seconds["diagnose"] = 0.0

    def remaining(self) -> Iterator[Tensor]:
        """Yield the images of the batches not yet shown; labels stay with the tally."""
        self._clock = time.perf_counter()
        for batch in self.stream.batches(self.batches):
            yield batch.images

    def step(self, images: Tensor) -> None:
        """Let the method predict and learn, and score what it predicted."""
        logits = self.adapter(images)
        self.tally.add(logits)
        self.batches += 1
        memory = self.adapter.memory
        if memory is not None and self.tally.seen % self.tally.stretch == 0:
            self.trace.append({"samples": self.tally.seen, "sizes": _sizes(memory)})
        now = time.perf_counter()
        if self.live is not None:
            self.live.see(images, logits)
            self.seconds["diagnose"] += time.perf_counter() - now
            now = time.perf_counter()
        self.seconds["stream"] += now - self._clock
        self._clock = now

    def finish(self) -> None:
        """Wait for the device, so that the clock tells the truth."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds["stream"] += time.perf_counter() - self._clock
        self._clock = time.perf_counter()

    def checkpoint(self) -> Checkpoint:
        """Return everything needed to continue after the batches done so far."""
        return Checkpoint(
            batches=self.batches,
            settings=self.experiment.settings(),
            adapter=self.adapter.state_dict(),
            tally=self.tally.state_dict(),
            notes={
                "trace": self.trace,
                "seconds": self.seconds,
                "counters": self.counters(),
                "weights": self.weights["digest"],
                "live": None if self.live is None else self.live.notes(),
            },
        )

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint of the same settings and the same weights."""
        if saved.notes.get("weights") != self.weights["digest"]:
            raise other_weights("the checkpoint", self.weights["name"])
        self.adapter.load_state_dict(saved.adapter)
        self.tally.load_state_dict(saved.tally)
        self.batches = saved.batches
        self.trace = list(saved.notes["trace"])
        self.seconds = {key: float(value) for key, value in saved.notes["seconds"].items()}
        self._earlier = saved.notes["counters"]
        self._base = self._counters()
        if self.live is not None:
            self._restore_live(saved.notes.get("live"))

    def _restore_live(self, notes: dict[str, Any] | None) -> None:
        if notes is None:
            raise ValueError(
                "the run to continue was begun without --diagnose; leave it out, or start again"
            )
        shown = (self.stream[index].images for index in range(self.batches))
        assert self.live is not None
        self.live.restore(notes, self.tally.seen, shown)

    def counters(self) -> dict[str, dict[str, float]]:
        """Return what the method and its memory have counted since the run began."""
        return {
            kind: {
                name: self._earlier.get(kind, {}).get(name, 0) + value - self._base[kind][name]
                for name, value in now.items()
            }
            for kind, now in self._counters().items()
        }

    def _counters(self) -> dict[str, dict[str, float]]:
        return {
            "counts": dict(self.adapter.counts),
            "seconds": dict(self.adapter.seconds),
            "events": dict(getattr(self.adapter.memory, "events", {})),
        }

    def timing(self) -> dict[str, float]:
        """Return seconds: loading, the stream as a whole, and the method's shares of it."""
        spent = {**self.seconds, **self.counters()["seconds"]}
        return {part: round(value, 4) for part, value in spent.items()}

    def result(self, complete: bool) -> Result:
        """Return what was measured so far."""
        errors = self.tally.group_errors().reshape(self.rounds, -1)  # (R, domains)
        by_domain = _means(errors.T)
        seen = [error for error in by_domain if error is not None]
        timing = self.timing()
        seconds = timing["stream"]
        return Result(
            error=_mean(seen),
            errors=_named(self.stream.domains, by_domain),
            complete=complete,
            settings=self.experiment.settings(),
            versions=versions(),
            seed=self.experiment.seed,
            samples=self.tally.seen,
            total=self.stream.samples,
            curve=self._curve(),
            changes=self._changes(),
            rounds=self._rounds(errors) if self.rounds > 1 else [],
            counts={key: int(value) for key, value in self.counters()["counts"].items()},
            memory=self._memory(),
            diagnostics=[] if self.live is None else self.live.points,
            weights=self.weights,
            notes=self.notes,
            timing=timing,
            host=host(self.device),
            samples_per_second=round(self.tally.seen / seconds, 1) if seconds > 0 else None,
        )

    def _curve(self) -> list[dict[str, Any]]:
        points = []
        for index, error in enumerate(self.tally.curve()):
            samples = min((index + 1) * self.tally.stretch, self.tally.seen)
            points.append({"samples": samples, "error": round(float(error), 4)})
        return points

    def _changes(self) -> list[dict[str, Any]]:
        """List at which sample which domain begins, unless that is all the time."""
        first = np.flatnonzero(np.diff(self.groups, prepend=-1))
        if len(first) > _MOST_CHANGES:
            return []
        width = len(self.stream.domains)
        return [
            {
                "sample": int(sample),
                "domain": self.stream.domains[int(self.groups[sample]) % width],
                "round": int(self.groups[sample]) // width,
            }
            for sample in first
        ]

    def _rounds(self, errors: np.ndarray[Any, np.dtype[np.float64]]) -> list[dict[str, Any]]:
        found = []
        for row in errors:
            values = [None if np.isnan(v) else float(v) for v in row]
            seen = [v for v in values if v is not None]
            if seen:
                named = _named(self.stream.domains, values)
                found.append({"error": _mean(seen), "errors": named})
        return found

    def _memory(self) -> dict[str, Any] | None:
        memory = self.adapter.memory
        if memory is None:
            return None
        events = {key: int(value) for key, value in self.counters()["events"].items()}
        sizes = _sizes(memory)
        return {"size": len(memory), "sizes": sizes, "events": events, "trace": self.trace}


def nothing(experiment: Experiment, device: torch.device) -> Result:
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


def _groups(stream: Stream, rounds: int) -> Ints:
    """Return the ``(S,)`` group of every sample: its domain, counted on through the rounds."""
    once = -(-stream.samples // rounds)  # a last batch of one may be left out of the last round
    return np.arange(stream.samples) // once * len(stream.domains) + stream.domain_ids


def _sizes(memory: object) -> list[int]:
    """Return how many samples each cluster holds; a pool is one cluster."""
    clusters = getattr(memory, "clusters", None)
    if clusters is None:
        return [len(memory)]  # type: ignore[arg-type]
    return [int(size) for size in clusters.sizes]


def _means(errors: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    """Return the mean of each row ``(rows, columns)`` over what was seen; None: nothing was."""
    return [_mean([float(v) for v in row if not np.isnan(v)]) for row in errors]


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def _named(names: tuple[str, ...], values: list[float | None]) -> dict[str, float]:
    pairs = zip(names, values, strict=True)
    return {name: round(value, 4) for name, value in pairs if value is not None}
