"""Look at a stream before, and at memories while, a method runs on it (Fig. 1, 4 and S2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from multipool.bench.run import loader as loading
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.runner import Progress
from multipool.bench.run.session import Session
from multipool.data import Stream
from multipool.diagnostics import (
    COMPONENTS,
    Clusterability,
    Measured,
    MemoryObserver,
    Quality,
    clusterability,
    describe,
)
from multipool.memory import DESCRIPTORS, MEMORIES
from multipool.ops.device import resolve

# Those that are computed from images alone; the paper's three.
IMAGE_DESCRIPTORS = tuple(name for name in DESCRIPTORS if name != "feature")
# Fig. S2 shows t = 1400 and 2220 of the 2344 batches: where in any stream that would be.
SNAPSHOTS = (1400 / 2344, 2220 / 2344)
Tell = Callable[[Progress, str | None], None]


@dataclass(frozen=True)
class Snapshot:
    """What a memory held at one time, in descriptor space."""

    samples: int  # of the stream seen so far
    stream: Tensor  # (S, D) descriptors of the stream so far
    held: Tensor  # (M, D) descriptors of the memory's samples
    clusters: Tensor  # (M,) their clusters; 0 for pools
    quality: Quality


@dataclass(frozen=True)
class Watched:
    """One memory on the stream: its quality over time, and what it held at chosen times."""

    name: str
    error: float  # of the method with it, per cent
    capacity: int  # samples it can hold
    trace: tuple[Measured, ...]
    snapshots: tuple[Snapshot, ...]
    changes: tuple[int, ...]  # samples at which a new domain begins

    def over_time(self, number: str) -> list[tuple[int, float]]:
        """Return samples and ``imbalance``, ``entropy`` or ``coverage`` of every measurement."""
        return [(point.samples, float(getattr(point.quality, number))) for point in self.trace]

    def mean(self, number: str) -> float:
        """Return the mean of a number over time."""
        return sum(value for _, value in self.over_time(number)) / len(self.trace)

    def last(self, number: str) -> float:
        """Return a number at the end."""
        return self.over_time(number)[-1][1]


def diagnose_stream(
    stream: Stream,
    descriptors: Sequence[str] = IMAGE_DESCRIPTORS,
    tell: Callable[[str], None] = lambda text: None,
    **options: int | float | str | None,
) -> list[Clusterability]:
    """Return the clusterability of a stream for each descriptor; options are its own."""
    found = []
    for name in descriptors:
        tell(name)
        found.append(clusterability(stream, name, **options))  # type: ignore[arg-type]
    return found


def diagnose_memory(
    experiment: Experiment,
    memories: Sequence[str] = ("single", "mcm", "mcm+"),
    *,
    interval: int | None = None,
    components: int = COMPONENTS,
    descriptor: str = "pixel",
    snapshots: Sequence[float] = SNAPSHOTS,
    same_capacity: bool = False,
    progress: Tell | None = None,
) -> list[Watched]:
    """Run a method with each of several memories on the same stream, and measure what they hold.

    Args:
        experiment: what to run; its ``memory`` is not looked at.
        memories: names of memories; ``single`` is the method's own pool.
        interval: samples between two measurements; ``None`` is 640, or a twentieth of a short
            stream.
        components: of the reference mixture.
        descriptor: of the reference mixture.
        snapshots: shares of the stream after which the memory's content is kept.
        same_capacity: also run the method's own pool with as many samples as ``mcm`` can hold.
        progress: hears how far the run is, and of which memory.
    """
    for share in snapshots:
        if not 0 < share <= 1:
            raise ValueError(f"snapshots must be shares of the stream in (0, 1], got {share}")
    loader = loading.Loader()
    runs = [(name, replace(experiment, memory=name)) for name in memories]
    if same_capacity:
        total = _capacity(experiment, loader)
        options = {**experiment.memory_options, "capacity": total}
        larger = replace(experiment, memory="single", memory_options=options)
        runs.insert(1, (f"single ({total})", larger))
    found = []
    for name, run in runs:
        session = Session(run, loader, resolve(run.device))
        memory = session.adapter.memory
        if memory is None:
            raise ValueError(f"{experiment.method} has no memory to look at; choose another method")
        every = interval or max(1, min(640, session.stream.samples // 20))
        observer = MemoryObserver(memory, every, components, descriptor, seed=run.seed)
        found.append(_watch(name, session, observer, snapshots, progress))
    return found


def _watch(
    name: str,
    session: Session,
    observer: MemoryObserver,
    shares: Sequence[float],
    progress: Tell | None,
) -> Watched:
    total = len(session.stream)
    due = {max(1, min(total, round(share * total))) for share in shares}
    kept = []
    for images in session.remaining():
        session.step(images)
        observer.see(images)
        if session.batches in due and len(observer.memory):
            kept.append(_snapshot(observer))
        if progress is not None:
            progress(Progress(session.batches, total, session.tally.error()), name)
    observer.measure()
    session.finish()
    result = session.result(complete=True)
    if not observer.trace:
        raise ValueError(
            f"the memory '{name}' stayed empty for {observer.seen} samples, so it has no quality; "
            "choose a longer stream"
        )
    assert result.error is not None  # a stream is never empty
    changes = tuple(int(change["sample"]) for change in result.changes)
    options = getattr(observer.memory, "options", None)
    capacity = observer.memory.capacity if options is None else options.slots
    return Watched(name, result.error, capacity, tuple(observer.trace), tuple(kept), changes)


def _snapshot(observer: MemoryObserver) -> Snapshot:
    stored = observer.memory.retrieve(None)
    return Snapshot(
        samples=observer.seen,
        stream=observer.descriptors(),
        held=describe(stored.images, observer.descriptor),
        clusters=stored.clusters,
        quality=observer.reference().measure(stored),
    )


def _capacity(experiment: Experiment, loader: loading.Loader) -> int:
    """Return how many samples the paper's memory can hold for this dataset."""
    bank = MEMORIES["mcm"](loader.both(experiment, resolve(experiment.device)).num_classes)
    options = getattr(bank, "options", None)
    assert options is not None  # it is a multi-cluster memory
    return int(options.slots)
