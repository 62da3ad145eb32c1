"""Undo an update that failed or left something that is not a finite number."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from multipool.ops import Graphed

_log = logging.getLogger("multipool")


class Guard:
    """Keeps a copy of the last good state and puts it back when an update went wrong.

    The copy follows whatever proved to be finite, so also a state that was spoilt between two
    updates is put right. The decision stays on the device: no update waits for the host.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], device: torch.device, graphs: bool = True
    ) -> None:
        self._live = list(tensors.values())
        self._floats = [t for t in self._live if t.is_floating_point()]
        self._backup = [t.detach().clone() for t in self._live]
        self._undone = torch.zeros((), dtype=torch.int64, device=device)
        self._failed = 0
        self._settled = Graphed(self._settle, enabled=graphs)

    def skipped(self) -> int:
        """Return how many updates were undone."""
        return int(self._undone) + self._failed

    def run(self, update: Callable[[], Tensor]) -> Tensor | None:
        """Return the loss of ``update()``, which is undone if anything came out non-finite."""
        try:
            with torch.enable_grad():
                loss = update()
        except Exception as error:  # whatever it was, the stream goes on
            self.failed(error)
            return None
        with torch.no_grad():
            self._settled(loss.detach())
        return loss

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
        if self._live:
            torch._foreach_copy_(self._live, self._backup)

    @torch.no_grad()
    def accept(self) -> None:
        """Make the state as it is the last good one; it must be finite."""
        if self._live:
            torch._foreach_copy_(self._backup, self._live)

    def _settle(self, loss: Tensor) -> tuple[Tensor, ...]:
        """Accept the state if it and ``loss`` are finite, else undo; return which it was."""
        ends = [end.float() for t in self._floats if t.numel() for end in t.aminmax()]
        fine = torch.stack([loss.float(), *ends]).isfinite().all()
        for backup, live in zip(self._backup, self._live, strict=True):
            backup.copy_(torch.where(fine, live, backup))
            live.copy_(backup)
        self._undone += ~fine
        return (fine,)
