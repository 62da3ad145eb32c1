"""One run in progress: the stream, the method, the counts, and what they say so far."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from multipool import methods
from multipool.bench.run.certificate import certify
from multipool.bench.run.checkpoint import Checkpoint, other_weights, part
from multipool.bench.run.environment import host, versions, wait
from multipool.bench.run.experiment import Experiment, needs_source
from multipool.bench.run.live import Live
from multipool.bench.run.loader import Loader
from multipool.bench.run.predictions import Predictions
from multipool.bench.run.result import Result
from multipool.bench.run.sources import source_for
from multipool.bench.run.tally import (
    MOST_CHANGES,
    Tally,
    changes,
    curve_points,
    groups,
    mean,
    means,
    named,
    percent,
    rounds_of,
    sizes,
)
from multipool.data import Stream
from multipool.methods.fits import is_without_statistics

STRETCH = 640  # samples of one point of the error curve, at most
POINTS = 15  # of the curve of a short stream, at least


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
        predictions: bool = False,
    ) -> None:
        self.experiment, self.device = experiment, device
        if device.type == "cuda":  # a worker does many runs, and each reports its own peak
            gc.collect()  # the last run's adapter is a ring of references, and holds its graphs
            torch.cuda.reset_peak_memory_stats(device)
        tell("dataset and model")
        loaded = loader.both(experiment, device)
        self._loaded = loaded
        dataset, model = loaded.dataset, loaded.model
        self.weights = {"name": experiment.weights_name(), "digest": loaded.digest}
        self.notes: list[str] = list(loaded.notes)
        self.labelled: bool = getattr(dataset, "labelled", True)
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
            num_classes=loaded.num_classes,
            source=source,
            seed=experiment.seed,
            guard=experiment.guard,
            fallback=experiment.fallback,
            options=experiment.method_options(),
            memory_options=experiment.memory_options or None,
            precision=experiment.precision,
            compile=experiment.compile,
            reset_every=experiment.reset_every,
            decode=experiment.decoder(),
        )
        if is_without_statistics(self.adapter.method):
            self.notes.append(
                f"{experiment.method}: the model has no BatchNorm whose statistics could be kept; "
                "with clean training images --batchnorm puts some in"
            )
        self.rounds = experiment.rounds if experiment.protocol == "recurring" else 1
        self.groups = groups(self.stream, self.rounds)
        most = max(1, STRETCH // experiment.batch_size)
        stretch = min(most, max(1, len(self.stream) // POINTS)) * experiment.batch_size
        count = self.rounds * len(self.stream.domains)
        self.tally = Tally(self.stream.labels, self.groups, count, stretch, device)
        # What the decoder started from; without one there is nothing to count twice.
        self.undecoded = (
            Tally(self.stream.labels, self.groups, count, stretch, device)
            if self.adapter.decoder is not None
            else None
        )
        self.predictions = Predictions(self.stream) if predictions else None
        self.pool_trace: list[dict[str, int]] = []
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
        plain = self.adapter.undecoded if self.undecoded is not None else None
        if self.undecoded is not None and plain is not None:
            self.undecoded.add(plain)
        if self.predictions is not None:
            self.predictions.add(
                logits if plain is None else plain, None if plain is None else logits
            )
        self.batches += 1
        self._trace_pools()
        memory = self.adapter.memory
        if memory is not None and self.tally.seen % self.tally.stretch == 0:
            self.trace.append({"samples": self.tally.seen, "sizes": sizes(memory)})
        now = time.perf_counter()
        if self.live is not None:
            self.live.see(images, logits)
            self.seconds["diagnose"] += time.perf_counter() - now
            now = time.perf_counter()
        self.seconds["stream"] += now - self._clock
        self._clock = now

    def _trace_pools(self) -> None:
        """Note which pool the stream is in, whenever that changes."""
        pool = self.adapter.method.facts().get("pool")
        last = self.pool_trace[-1]["pool"] if self.pool_trace else None
        if isinstance(pool, int) and pool != last and len(self.pool_trace) < MOST_CHANGES:
            self.pool_trace.append({"samples": self.tally.seen, "pool": max(0, pool)})

    def finish(self) -> None:
        """Wait for the device, so that the clock tells the truth."""
        wait(self.device)
        self.seconds["stream"] += time.perf_counter() - self._clock
        self._clock = time.perf_counter()

    def checkpoint(self) -> Checkpoint:
        """Return everything needed to continue after the batches done so far."""
        return Checkpoint(
            batches=self.batches,
            settings=self.experiment.settings(),
            adapter=self.adapter.state_dict(),
            tally=self._counted(),
            notes={
                "pools": self.pool_trace,
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
        if self.undecoded is not None:
            self.undecoded.load_state_dict(part(saved.tally, "undecoded."))
        if self.predictions is not None:
            self.predictions.load_state_dict(part(saved.tally, "predictions."), self.tally.seen)
        self.pool_trace = list(saved.notes.get("pools", []))
        self.batches = saved.batches
        self.trace = list(saved.notes["trace"])
        self.seconds = {key: float(value) for key, value in saved.notes["seconds"].items()}
        self._earlier = saved.notes["counters"]
        self._base = self._counters()
        if self.live is not None:
            self._restore_live(saved.notes.get("live"))

    def _counted(self) -> dict[str, Tensor]:
        state = self.tally.state_dict()
        if self.undecoded is not None:
            state |= {f"undecoded.{k}": v for k, v in self.undecoded.state_dict().items()}
        if self.predictions is not None:
            state |= {f"predictions.{k}": v for k, v in self.predictions.state_dict().items()}
        return state

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
        by_domain = means(errors.T)
        timing = self.timing()
        seconds = timing["stream"]
        found = Result(
            error=self._error_of(self.tally),
            errors=named(self.stream.domains, by_domain),
            complete=complete,
            settings=self.experiment.settings(),
            versions=versions(),
            seed=self.experiment.seed,
            samples=self.tally.seen,
            total=self.stream.samples,
            curve=curve_points(self.tally),
            changes=changes(self.groups, self.stream.domains),
            rounds=rounds_of(errors, self.stream.domains) if self.rounds > 1 else [],
            counts={key: int(value) for key, value in self.counters()["counts"].items()},
            memory=self._memory(),
            undecoded_error=None if self.undecoded is None else self._error_of(self.undecoded),
            estimate=percent(self.adapter.estimate),
            pools=self._pools(),
            diagnostics=[] if self.live is None else self.live.points,
            weights=self.weights,
            certificate=self._certificate(),
            notes=self.notes,
            timing=timing,
            host=host(self.device),
            samples_per_second=round(self.tally.seen / seconds, 1) if seconds > 0 else None,
        )
        if self.labelled:
            return found
        return replace(found, error=None, errors={}, curve=[], rounds=[], undecoded_error=None)

    def error(self) -> float | None:
        """Return the error so far in per cent; None before the first image or without labels."""
        return self.tally.error() if self.labelled else None

    def _error_of(self, tally: Tally) -> float | None:
        """Return the mean over the domains seen."""
        errors = tally.group_errors().reshape(self.rounds, -1)
        return mean([error for error in means(errors.T) if error is not None])

    def _certificate(self) -> dict[str, Any]:
        model, dataset = self._loaded.model, self._loaded.dataset
        return certify(self.experiment, self.weights, model, dataset, self.stream, self.device)

    def _pools(self) -> dict[str, Any] | None:
        """Return what became of the pools, and which was active when."""
        facts = self.adapter.method.facts()
        if "pools" not in facts:
            return None
        return {**facts, "trace": self.pool_trace}

    def _memory(self) -> dict[str, Any] | None:
        memory = self.adapter.memory
        if memory is None:
            return None
        events = {key: int(value) for key, value in self.counters()["events"].items()}
        held = sizes(memory)
        return {"size": len(memory), "sizes": held, "events": events, "trace": self.trace}
