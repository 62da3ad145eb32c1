"""The plainest pool: the newest samples."""

from __future__ import annotations

from multipool.memory.pool import Pool


class FifoPool(Pool):
    """Keep the last ``capacity`` samples; hand them out oldest first."""

    def _group(self, label: int) -> int:
        return 0

    def _make_room(self, label: int, uncertainty: float) -> bool:
        if self._occupied == self.capacity:
            self._evict(0, 0)
        return True
