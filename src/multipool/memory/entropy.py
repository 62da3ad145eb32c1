"""ResiTTA's pool (EntroBank as released), behind the entropy gate that sits in the method."""

from __future__ import annotations

from multipool.memory.pool import Pool


class EntropyPool(Pool):
    """Take every sample in; when full, a random one of a random largest class leaves.

    There is no quota: one class may fill the pool.
    """

    def _make_room(self, label: int, uncertainty: float) -> bool:
        if self._occupied == self.capacity:
            largest = self._majority()
            self._evict_random(largest[int(self._generator.integers(len(largest)))])
        return True
