"""Undo an update that failed or left something that is not a finite number."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

_log = logging.getLogger("multipool")


class Guard:
    """Keeps a copy of what an update may change and puts it back when the update went wrong.

    The decision stays on the device: no update waits for the host.
    """

    def __init__(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._live = [t for t in tensors.values() if t.is_floating_point()]
        self._backup = [t.clone() for t in self._live]
        self._undone = torch.zeros((), dtype=torch.int64, device=device)
        self._failed = 0

    def skipped(self) -> int:
        """Return how many updates were undone."""
        return int(self._undone) + self._failed

    @torch.no_grad()
    def run(self, update: Callable[[], Tensor]) -> Tensor | None:
        """Return the loss of ``update()``, which is undone if anything came out non-finite."""
        for backup, live in zip(self._backup, self._live, strict=True):
            backup.copy_(live)
        try:
            with torch.enable_grad():
                loss = update()
        except Exception as error:  # whatever it was, the stream goes on
            _log.warning("an update failed and was undone: %s", error)
            self._failed += 1
            for backup, live in zip(self._backup, self._live, strict=True):
                live.copy_(backup)
            return None
        # A sum is finite exactly if every term is (float64: no overflow on the way).
        sums = torch.stack([t.sum(dtype=torch.float64) for t in (loss, *self._live)])
        fine = sums.isfinite().all()
        for backup, live in zip(self._backup, self._live, strict=True):
            live.copy_(torch.where(fine, live, backup))
        self._undone += ~fine
        return loss
