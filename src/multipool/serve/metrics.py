"""What Prometheus reads: the service as a whole, and the streams used last, one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from multipool.serve.entry import Entry
from multipool.serve.events import Events

MOST_STREAMS = 100  # with series of their own
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_IMAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts for the whole service; what is known of single streams is read when asked for."""

    def __init__(
        self, entries: Mapping[str, Entry], events: Events, pending: Callable[[], int]
    ) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "multipool_requests", "Requests by route and status.", ["route", "status"],
            registry=self.registry,
        )  # fmt: skip
        self._latency = Histogram(
            "multipool_request_seconds", "From the head of a request to its answer.", ["route"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._batches = Histogram(
            "multipool_batch_images", "Images of a batch.", ["learned"],
            buckets=_IMAGES, registry=self.registry,
        )  # fmt: skip
        self._compute = Histogram(
            "multipool_batch_seconds", "From a batch's start until it is learned.",
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._happened = Counter(
            "multipool_adaptation", "Updates, updates undone, states restored, and what became "
            "of pools, of all streams.", ["kind"], registry=self.registry,
        )  # fmt: skip
        self.registry.register(_Streams(entries, events, pending))
        self._series: dict[tuple[object, ...], Any] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request; ``route`` is a pattern of ours, never what a client typed."""
        self._labelled(self._requests, route, str(status)).inc()
        self._labelled(self._latency, route).observe(seconds)

    def batch(self, images: int, seconds: float, *, learn: bool) -> None:
        """Count a batch."""
        self._labelled(self._batches, "yes" if learn else "no").observe(images)
        self._compute.observe(seconds)

    def happened(self, kind: str, count: int) -> None:
        """Count what an adapter counted."""
        self._happened.labels(kind).inc(count)

    def _labelled(self, family: Counter | Histogram, *labels: str) -> Any:  # noqa: ANN401
        """Return one series of a family; to find it anew takes a lock and checks each time."""
        key = (family, *labels)
        if key not in self._series:
            self._series[key] = family.labels(*labels)
        return self._series[key]

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self.registry)


class _Streams(Collector):
    """Gauges of the service, and of the ``MOST_STREAMS`` streams that were used last."""

    def __init__(
        self, entries: Mapping[str, Entry], events: Events, pending: Callable[[], int]
    ) -> None:
        self._entries, self._events, self._pending = entries, events, pending

    def describe(self) -> list[Metric]:
        """Return nothing: what there is depends on the streams."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of this moment."""
        entries = list(self._entries.values())
        now = time.monotonic()
        unsaved = [now - e.unsaved_since for e in entries if e.unsaved_since is not None]
        yield _gauge("streams", "Streams known.", len(entries))
        resident = sum(e.resident for e in entries)
        yield _gauge("streams_in_memory", "Streams in memory.", resident)
        taken = sum(e.nbytes for e in entries)
        yield _gauge("resident_bytes", "Memory that streams take.", taken)
        yield _gauge("pending_requests", "Requests that wait or are answered.", self._pending())
        age = max(unsaved, default=0.0)
        yield _gauge("unsaved_seconds", "Age of the oldest thing not on the disk.", age)
        events = CounterMetricFamily("multipool_events", "Events by kind.", labels=["kind"])
        for kind, count in sorted(self._events.counts.items()):
            events.add_metric([kind], count)
        yield events
        latest = sorted(entries, key=lambda e: -e.used)[:MOST_STREAMS]
        for name, (about, read) in _PER_STREAM.items():
            family = GaugeMetricFamily(f"multipool_stream_{name}", about, labels=["stream"])
            for entry in latest:
                value = read(entry)
                if value is not None:
                    family.add_metric([entry.name], value)
            yield family


_PER_STREAM: dict[str, tuple[str, Callable[[Entry], float | None]]] = {
    "requests": ("Requests answered by this process.", lambda e: e.requests),
    "images": ("Images learned from.", lambda e: e.facts.images),
    "updates": ("Updates made.", lambda e: e.facts.updates),
    "skipped": ("Updates undone.", lambda e: e.facts.skipped),
    "restored": ("Times a good state was restored.", lambda e: e.facts.restored),
    "pools": ("Pools.", lambda e: e.facts.pools),
    "estimated_accuracy": ("Expected accuracy, without labels.", lambda e: e.facts.estimate),
    "entropy": ("Mean entropy of the last predictions, nats.", lambda e: e.facts.entropy),
    "waiting": ("Requests waiting.", lambda e: len(e.waiting)),
}


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"multipool_{name}", about, value=value)
