"""A memory: the newest samples of every predicted class, equally many each."""

from multipool.memory import Pool


class NewestPerClass(Pool):
    """Keeps ``capacity / num_classes`` samples of each class, at least one.

    :class:`multipool.memory.Pool` stores, hands out and saves; this class says
    who makes room.
    """

    def _make_room(self, label: int, uncertainty: float) -> bool:
        """Evict whatever the newcomer replaces; return whether it is let in."""
        share = max(1, self.capacity // self.num_classes)
        if len(self._groups.get(label, [])) >= share:
            self._evict(label, 0)  # the oldest of its class
        elif self._occupied == self.capacity:
            self._evict(self._majority()[0], 0)
        return True
