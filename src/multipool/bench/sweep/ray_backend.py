"""The Ray backend: every run is a task on a cluster, with the cores and GPUs it needs."""

from __future__ import annotations

import functools
import secrets
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from multipool.bench.run import result as results
from multipool.bench.run.loader import Loader
from multipool.bench.sweep.ledger import POLL, SweepLedger, mark_shared
from multipool.bench.sweep.planned import Planned
from multipool.bench.sweep.work import DONE, Options, Outcome, execute
from multipool.core.cluster import connect

_GRACE = 60.0  # seconds that interrupted tasks have to write their checkpoints


def run_ray(ledger: SweepLedger, runs: list[Planned], options: Options) -> None:
    """Do every run of ``ledger`` on the Ray cluster at ``options.ray_address``.

    The driver claims runs and collects outcomes. Tasks write into the sweep's folder where they
    see it; on nodes that do not, a task works in a folder of its own and sends its result back.
    """
    ray = connect(options.ray_address, options.threads or max(1, int(options.cpus)))
    marker = mark_shared(ledger.out, secrets.token_hex(8))
    try:
        _Flight(ray, ledger, runs, options, marker).work()
    finally:
        marker.unlink(missing_ok=True)
        ray.shutdown()


class _Flight:
    """The tasks under way."""

    def __init__(
        self,
        ray: Any,  # noqa: ANN401
        ledger: SweepLedger,
        runs: list[Planned],
        options: Options,
        marker: Path,
    ) -> None:
        self.ray, self.ledger, self.options, self.marker = ray, ledger, options, marker
        self.flying: dict[Any, Planned] = {}
        most = max((self._gpus(run) for run in runs), default=0.0)
        there = self.ray.cluster_resources().get("GPU", 0.0)
        if most > there:
            raise ValueError(f"runs need {most:g} GPUs each, but the Ray cluster has {there:g}")
        # Spread: packed on one node, the others would stand idle.
        self.task = ray.remote(max_retries=0, scheduling_strategy="SPREAD")(_on_node)

    def work(self) -> None:
        try:
            while not self.ledger.settled:
                self._launch()
                if self.flying:
                    ready, _ = self.ray.wait(list(self.flying), timeout=POLL)
                    for task in ready:
                        self._land(task)
                elif not self.ledger.settled:
                    time.sleep(POLL)  # the rest is being done by another sweep
        except KeyboardInterrupt:
            self.ledger.stopping = True
            for task in self.flying:
                self.ray.cancel(task)
            self.ray.wait(list(self.flying), num_returns=len(self.flying), timeout=_GRACE)
            raise

    def _launch(self) -> None:
        """Keep every core busy, with as many tasks waiting; the rest is left to other sweeps."""
        cores = self.ray.cluster_resources().get("CPU", 1.0)
        window = max(4, int(2 * cores / self.options.cpus))
        while len(self.flying) < window and (run := self.ledger.next()) is not None:
            needs = {"num_cpus": self.options.cpus, "num_gpus": self._gpus(run)}
            folder = run.folder(self.ledger.out.resolve())
            task = self.task.options(**needs).remote(
                run, folder, self.marker.resolve(), self.options.checkpoint_every
            )
            self.flying[task] = run

    def _land(self, task: object) -> None:
        run = self.flying.pop(task)
        try:
            outcome: Outcome = self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            self.ledger.lost(run, _first_sentence(error))
        else:
            self.ledger.settle(run, outcome)

    def _gpus(self, run: Planned) -> float:
        if run.experiment.device == "cpu":
            return 0.0
        if self.options.gpus is not None:
            return self.options.gpus
        there = self.ray.cluster_resources().get("GPU", 0.0)
        return 1.0 if there or run.experiment.device.startswith("cuda") else 0.0


def _on_node(run: Planned, folder: Path, marker: Path, checkpoint_every: int) -> Outcome:
    """Do one run in a worker of the cluster."""
    if marker.is_file():
        return execute(run, folder, _loader(), checkpoint_every=checkpoint_every)
    with tempfile.TemporaryDirectory(prefix="multipool-") as place:
        outcome = execute(run, Path(place), _loader(), checkpoint_every=0)
        if outcome.state != DONE:
            return outcome
        return replace(outcome, content=results.read(Path(place) / results.FILE).as_dict())


def _first_sentence(error: Exception) -> str:
    """Return what Ray says first: that a worker or node is gone, or has no multipool.

    >>> _first_sentence(RuntimeError("The node is dead. This can happen if it was preempted."))
    'RuntimeError: The node is dead'
    """
    first = " ".join(str(error).split()).partition(". ")[0]
    return f"{type(error).__name__}: {first}"


@functools.cache
def _loader() -> Loader:
    """Return this process' loader: Ray gives a worker process one task after another."""
    return Loader()
