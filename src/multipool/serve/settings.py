"""All that can be chosen about a service, with its limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """What one request, one stream and the whole service may take."""

    max_body: int = 32 * MIB  # bytes of a request, also once it is unpacked
    max_images: int = 256  # of a request
    max_held: int = 512 * MIB  # bytes of all requests that are being read or answered
    max_pixels: int = 2**24  # of a picture before it is scaled to the model's size
    max_queue: int = 32  # requests waiting in one stream; the next one gets 429
    max_rate: float = 0.0  # requests a second of one stream; the next one gets 429; 0: any number
    max_pending: int = 512  # requests waiting in all streams; the next one gets 503
    max_streams: int = 10_000  # known at a time, in memory or on disk
    max_requests: int = 1024  # at a time, of any kind; the next one gets 503
    header_seconds: float = 10.0  # for a connection to send its next request's head
    body_seconds: float = 30.0  # for the rest of a request to come in
    answer_seconds: float = 60.0  # for a request to wait and be answered

    def __post_init__(self) -> None:
        _check_positive(self, zero=("max_rate",))


@dataclass(frozen=True)
class Serving:
    """How streams are batched, kept and saved."""

    state_dir: Path
    max_batch: int = 64  # images that waiting requests of one stream are joined to
    max_wait_ms: float = 0.0  # that a request waits for others of its stream to join it
    save_every: float = 30.0  # seconds after which what was learned is on the disk
    resident: int = 256  # streams in memory; the least recently used go to the disk
    resident_mib: int = 1024  # that these may take together, before one of them goes
    lanes: int = 1  # threads that compute; a stream keeps to one of them
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        _check_positive(self, zero=("max_wait_ms",))


def default_lanes(device: str) -> int:
    """Return how many threads compute: one on a GPU, on a CPU as many as it has cores, up to 4."""
    return 1 if device.startswith("cuda") else max(1, min(4, os.cpu_count() or 1))


def _check_positive(settings: object, zero: tuple[str, ...] = ()) -> None:
    for item in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, item.name)
        if not isinstance(value, (int, float)):
            continue
        if not (value >= 0 if item.name in zero else value > 0) or value == float("inf"):
            name = item.name.replace("_", "-")
            least = "of at least" if item.name in zero else "above"
            raise ValueError(f"--{name} must be a number {least} 0, got {value}")
