"""What a stream shows and in which order, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from multipool.core import lookup
from multipool.data.streams import PROTOCOLS


@dataclass(frozen=True)
class StreamConfig:
    """What is streamed and how; by default PTTA, practical test-time adaptation: classes in runs.

    Args:
        protocol: the order, a key of ``PROTOCOLS``.
        batch_size: images of a batch.
        gamma: Dirichlet concentration; smaller: longer runs of a class. For ``ptta``,
            ``recurring`` and ``interleaved``, as ``slots``.
        slots: parts of a domain; None: one a class, at most 100.
        rounds: of a ``recurring`` stream.
        seed: of the order and of the subset.
        limit: N takes floor(N / domains) images of each domain: one class-balanced subset, the same
            rows in every domain; shared among the severities of a ``gradual`` stream.
        drop_absent: as in :func:`multipool.data.streams.ptta`.
        cameras: streams that are woven into one (``interleaved``).
        shown: classes that each domain of a ``few`` stream shows. There ``limit`` counts images of
            these classes, so that domains have other rows, and fewer where there are no more.
        distinct: other rows in every domain, so that no image comes twice, corrupted otherwise;
            for domains that are copies of the same images. Each has a share of them, and ``limit``
            may leave it less. Rounds of ``recurring`` and severities of ``gradual`` do repeat it.

    Example:
        >>> StreamConfig("ctta", batch_size=16).gamma
        0.1
    """

    protocol: str = "ptta"
    batch_size: int = 64
    gamma: float = 0.1
    slots: int | None = None
    rounds: int = 20
    seed: int = 0
    limit: int | None = None
    drop_absent: bool = False
    cameras: int = 4
    shown: int = 1
    distinct: bool = False

    def __post_init__(self) -> None:
        lookup(PROTOCOLS, self.protocol, "protocol")
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size!r}")
