"""Undo an update that failed or left something that is not a finite number."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from multipool.engine.graphs import Graphed

_log = logging.getLogger("multipool")
_LARGE = 2**20  # values of a tensor copied by itself: to lay it beside others is expensive


class _Snapshot:
    """Tensors of one kind and their last good values, in one vector: few kernels move them all."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._live = [t.detach() for t in tensors]
        self._good = self._flat()
        # Several tensors are laid side by side here to be looked at; one is a vector already.
        self._now = torch.empty_like(self._good) if len(self._live) > 1 else self._good
        sizes = [t.numel() for t in self._live]
        shapes = [t.shape for t in self._live]
        self._parts = [p.view(s) for p, s in zip(self._good.split(sizes), shapes, strict=True)]

    def lay_out(self) -> Tensor | None:
        """Lay the values out; return their extent, if they are of a kind that can be infinite."""
        self._now = self._flat(self._now) if len(self._live) > 1 else self._live[0].reshape(-1)
        return extent(self._now) if self._now.is_floating_point() else None

    def choose(self, finite: Tensor) -> None:
        """Make what was laid out the good values if ``finite``, else undo; no host decides."""
        torch.where(finite, self._now, self._good, out=self._good)
        self.undo()

    def undo(self) -> None:
        """Put the last good values back."""
        torch._foreach_copy_(self._live, self._parts)

    def accept(self) -> None:
        """Make the values as they are the good ones."""
        self._flat(self._good)

    def _flat(self, out: Tensor | None = None) -> Tensor:
        """Return all values as one vector."""
        return torch.cat([t.reshape(-1) for t in self._live], out=out)


class Guard:
    """Keeps a copy of the last good state and puts it back when an update went wrong.

    The copy follows whatever proved to be finite, so also a state that was spoilt between two
    updates is put right. The decision stays on the device: no update waits for the host.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], device: torch.device, graphs: bool = True
    ) -> None:
        self._live = [t for t in tensors.values() if t.numel()]
        kinds: dict[object, list[Tensor]] = {}
        for index, t in enumerate(self._live):
            alone = index if t.numel() >= _LARGE else None
            kinds.setdefault((t.dtype, t.device, alone), []).append(t)
        self._snapshots = [_Snapshot(kind) for kind in kinds.values()]
        self._no_loss = torch.zeros((), dtype=torch.float32, device=device)
        self._accepted = torch.zeros((), dtype=torch.int64, device=device)
        self._decided = 0
        self._failed = 0
        self._settled = Graphed(self._settle, enabled=graphs)
        self._seen = self._versions()

    def skipped(self) -> int:
        """Return how many updates were undone."""
        return self._decided - int(self._accepted) + self._failed

    def run(self, update: Callable[[], Tensor], *, again: bool = False) -> Tensor | None:
        """Return the loss of ``update()``, which is undone if anything came out non-finite.

        ``again``: an update that was undone is tried once more, where that is known without
        waiting for a GPU; what broke once need not break twice.
        """
        loss, undone = self._try(update)
        if again and undone:
            loss, undone = self._try(update)
            if undone:
                self.forgive()
        return loss

    def _try(self, update: Callable[[], Tensor]) -> tuple[Tensor | None, bool]:
        """Return the loss, if there is one, and whether the update is known to be undone."""
        try:
            with torch.enable_grad():
                loss = update()
        except Exception as error:  # whatever it was, the stream goes on
            self.failed(error)
            return None, True
        finite = self._decide(loss.detach())
        return loss, not finite.is_cuda and not bool(finite)

    def forgive(self) -> None:
        """Count what failed twice once."""
        self._failed -= 1

    def close(self) -> None:
        """Take in what has changed outside of updates since the last one, if it is finite.

        Only what runs inside :meth:`run` may change the state by a replayed graph: torch counts
        the changes that it makes itself.
        """
        if self._versions() != self._seen:
            self._decide(self._no_loss)

    def failed(self, error: Exception) -> None:
        """Put the last good state back after an error, count it and log one line."""
        _log.warning("an update failed and was undone: %s: %s", type(error).__name__, error)
        self._failed += 1
        self.undo()
        if isinstance(error, torch.OutOfMemoryError) and torch.cuda.is_available():
            torch.cuda.empty_cache()  # the next batch gets what fragments held

    def skip(self) -> None:
        """Count a batch that could not be learned from, and put the last good state back."""
        self._failed += 1
        self.undo()

    @torch.no_grad()
    def undo(self) -> None:
        """Put the last good state back."""
        for snapshot in self._snapshots:
            snapshot.undo()
        self._seen = self._versions()

    @torch.no_grad()
    def accept(self) -> None:
        """Make the state as it is the last good one; it must be finite."""
        for snapshot in self._snapshots:
            snapshot.accept()
        self._seen = self._versions()

    @torch.no_grad()
    def _decide(self, loss: Tensor) -> Tensor:
        (finite,) = self._settled(loss)
        self._decided += 1
        self._seen = self._versions()
        return finite

    def _settle(self, loss: Tensor) -> tuple[Tensor, ...]:
        """Accept the state if it and ``loss`` are finite, else undo; return which it was."""
        found = [size for snapshot in self._snapshots if (size := snapshot.lay_out()) is not None]
        # The length of a vector that holds something infinite or no number is no finite number.
        finite = functools.reduce(torch.hypot, found, loss.float()) < torch.inf
        for snapshot in self._snapshots:
            snapshot.choose(finite)
        self._accepted += finite
        return (finite,)

    def _versions(self) -> list[int]:
        """Return how often torch has changed each tensor in place, views included."""
        return [t._version for t in self._live]


def extent(values: Tensor) -> Tensor:
    """Return max - min of a tensor as ``()``: not finite if anything in it is not.

    >>> import torch
    >>> extent(torch.tensor([1.0, 4.0])), extent(torch.tensor([1.0, float("-inf")]))
    (tensor(3.), tensor(inf))
    """
    low, high = values.detach().aminmax()
    return high - low


def is_finite(values: Tensor) -> bool:
    """Tell whether all values are finite; waits for the device once."""
    return math.isfinite(float(extent(values)))
