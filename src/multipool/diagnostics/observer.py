"""Watch a memory while it is used: its quality against the stream so far, now and then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multipool.core import as_float, check_images
from multipool.diagnostics.quality import COMPONENTS, Quality, Reference
from multipool.memory import DESCRIPTORS, Memory

_GROWTH = 1.1  # by how much the stream has grown before the reference is fitted anew


@dataclass(frozen=True)
class Measured:
    """The quality of a memory after so many samples of the stream."""

    samples: int
    quality: Quality

    def as_dict(self) -> dict[str, Any]:
        """Return a row for a table or for JSON."""
        return {"samples": self.samples, **self.quality.as_dict()}


class MemoryObserver:
    """Measures a bank every ``interval`` samples against a mixture of the stream so far.

    Show it every batch after the bank has seen it. Between measurements it only describes the
    images, on their device. The mixture is fitted anew when the stream has grown by a tenth, so
    the cost of a long run grows with its logarithm; nothing is drawn from the bank's generator,
    so the run stays the same, bit for bit. While the bank is empty nothing is measured.

    Args:
        memory: any bank.
        interval: samples between two measurements.
        components: of the reference mixture.
        descriptor: ``pixel``, ``spatial_mean`` or ``histogram``.
        seed: seed of the mixture's initialisation.

    >>> from multipool.memory import build
    >>> bank = build("fifo", num_classes=10, capacity=8)
    >>> observer = MemoryObserver(bank, interval=64)
    >>> images = torch.cat((torch.zeros(32, 3, 4, 4), torch.ones(32, 3, 4, 4)))
    >>> bank.add(images); observer.see(images)
    >>> [(point.samples, point.quality.coverage) for point in observer.trace]
    [(64, 0.5)]
    """

    def __init__(
        self,
        memory: Memory,
        interval: int = 640,
        components: int = COMPONENTS,
        descriptor: str = "pixel",
        seed: int = 0,
    ) -> None:
        if not isinstance(interval, int) or interval < 1:
            raise ValueError(f"interval must be a whole number of at least 1, got {interval!r}")
        if descriptor not in DESCRIPTORS or descriptor == "feature":
            images = ", ".join(name for name in DESCRIPTORS if name != "feature")
            raise ValueError(f"descriptor must be one of {images}, got {descriptor!r}")
        self.memory, self.interval = memory, interval
        self.trace: list[Measured] = []
        self.seen = 0
        self.descriptor, self._components, self._seed = descriptor, components, seed
        self._parts: list[Tensor] = []  # descriptors of the stream so far, on their device
        self._reference: Reference | None = None
        self._fitted = 0  # samples that the reference was fitted to

    @torch.no_grad()
    def see(self, images: Tensor) -> None:
        """Take note of a batch ``(B, C, H, W)`` that the bank has just been offered."""
        before = self.seen // self.interval
        self._describe(images)
        if self.seen // self.interval > before:
            self.measure()

    def measure(self) -> None:
        """Measure now, whatever the interval; an empty bank and a second time count for nothing."""
        if len(self.memory) and not (self.trace and self.trace[-1].samples == self.seen):
            self.trace.append(Measured(self.seen, self.reference().measure(self.memory)))

    def reference(self) -> Reference:
        """Return the mixture of the stream so far, fitted anew if it has grown enough."""
        if self.seen == 0:
            raise ValueError("the stream has shown nothing yet, so there is no reference")
        if self._reference is None or self.seen >= _GROWTH * self._fitted:
            self._fit(self.seen)
        assert self._reference is not None
        return self._reference

    def descriptors(self) -> Tensor:
        """Return the descriptors of the stream so far: ``(S, D)``, float64 on the host."""
        self._parts = [torch.cat([part.cpu() for part in self._parts])]
        return self._parts[0]

    def notes(self) -> dict[str, Any]:
        """Return what :meth:`restore` needs besides the images, ready for JSON."""
        told = [{"samples": p.samples, "occupancy": list(p.quality.occupancy)} for p in self.trace]
        return {"trace": told, "fitted": self._fitted}

    @torch.no_grad()
    def restore(self, notes: Mapping[str, Any], batches: Iterable[Tensor]) -> None:
        """Go on where :meth:`notes` were taken; ``batches`` are the images seen until then."""
        self.seen, self._parts = 0, []
        for images in batches:
            self._describe(images)
        self.trace = [
            Measured(int(p["samples"]), Quality(tuple(p["occupancy"]))) for p in notes["trace"]
        ]
        if notes["fitted"]:
            self._fit(int(notes["fitted"]))

    def _describe(self, images: Tensor) -> None:
        describe = DESCRIPTORS[self.descriptor]
        self._parts.append(describe(as_float(check_images(images.detach(), finite=False))))
        self.seen += len(images)

    def _fit(self, count: int) -> None:
        points = self.descriptors()[:count]
        self._reference = Reference(points, self._components, self.descriptor, self._seed)
        self._fitted = count
