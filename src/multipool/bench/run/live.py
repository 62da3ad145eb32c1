"""What ``run --diagnose`` records: the method's own facts and its memory's quality, over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from multipool.diagnostics import MemoryObserver
from multipool.engine import Adapter, Facts
from multipool.ops.probability import entropy

_INTERVAL = 640  # samples, at least, between two measurements of the memory
Counters = Callable[[], dict[str, dict[str, float]]]


class Live:
    """Listens to an adapter and keeps one point a stretch of the stream.

    A point has the mean loss of the stretch's updates (None without any, or where one was not
    finite), the mean entropy of its predictions, what was counted so far, the memory's sizes and,
    at the end and every 640 samples or more, its imbalance, entropy and coverage against a mixture
    of the stream so far.
    """

    def __init__(self, adapter: Adapter, stretch: int, counters: Counters, seed: int = 0) -> None:
        self.points: list[dict[str, Any]] = []
        self.seen = 0
        self._stretch, self._counters = stretch, counters
        memory = adapter.memory
        # Points of a short stream lie close together; the memory is measured at some of them.
        interval = stretch * -(-_INTERVAL // stretch)
        self._observer = None if memory is None else MemoryObserver(memory, interval, seed=seed)
        self._entropy = torch.zeros((), dtype=torch.float64, device=adapter.device)
        self._since = 0  # samples since the last point
        self._losses: list[float | None] = []
        self._sizes: list[int] = []
        adapter.observe(self._hear)

    @torch.no_grad()
    def see(self, images: Tensor, logits: Tensor) -> None:
        """Take note of a batch and of what was predicted for it."""
        self._entropy += entropy(logits.detach().double()).sum()
        before = self.seen // self._stretch
        self.seen += len(images)
        self._since += len(images)
        if self._observer is not None:
            self._observer.see(images)
        if self.seen // self._stretch > before:
            self._close()

    def finish(self) -> None:
        """Make a point of what came after the last one."""
        if self._observer is not None:
            self._observer.measure()
        if self._since:
            self._close()
        elif self.points:
            self.points[-1]["memory"] = self._quality()

    def notes(self) -> dict[str, Any]:
        """Return what :meth:`restore` needs besides the images, ready for JSON."""
        return {
            "points": self.points,
            "entropy": _finite(float(self._entropy)),
            "since": self._since,
            "losses": self._losses,
            "sizes": self._sizes,
            "observer": None if self._observer is None else self._observer.notes(),
        }

    def restore(self, notes: Mapping[str, Any], seen: int, batches: Iterable[Tensor]) -> None:
        """Go on where :meth:`notes` were taken; ``batches`` are the images ``seen`` until then."""
        self.points, self.seen, self._since = list(notes["points"]), seen, int(notes["since"])
        self._losses, self._sizes = list(notes["losses"]), list(notes["sizes"])
        self._entropy.fill_(math.nan if notes["entropy"] is None else notes["entropy"])
        if self._observer is not None:
            self._observer.restore(notes["observer"], batches)

    def _hear(self, facts: Facts) -> None:
        if "event" in facts:  # no update: it is counted, and has no loss
            return
        loss = facts["loss"]
        self._losses.append(None if loss is None else _finite(loss))
        self._sizes = list(facts.get("sizes", [] if facts["memory"] is None else [facts["memory"]]))

    def _close(self) -> None:
        losses = [loss for loss in self._losses if loss is not None]
        whole = losses and len(losses) == len(self._losses)
        counted = self._counters()
        point: dict[str, Any] = {
            "samples": self.seen,
            "loss": sum(losses) / len(losses) if whole else None,
            "entropy": _finite(float(self._entropy) / self._since),
            **{key: int(value) for key, value in counted["counts"].items()},
            **{key: int(value) for key, value in counted["events"].items()},
            "sizes": self._sizes,
        }
        point["memory"] = self._quality()
        self.points.append(point)
        self._losses, self._since = [], 0
        self._entropy.zero_()

    def _quality(self) -> dict[str, float] | None:
        """Return what was measured just now, if anything was."""
        trace = [] if self._observer is None else self._observer.trace
        fresh = trace and trace[-1].samples == self.seen
        return trace[-1].quality.as_dict() if fresh else None


def _finite(value: float) -> float | None:
    """Return the number, or None for one that JSON cannot hold."""
    return value if math.isfinite(value) else None
