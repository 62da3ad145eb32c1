"""NOTE's pool: a prediction-balanced reservoir (PBRS; Gong et al., NeurIPS 2022, Sec. 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from multipool.memory.pool import STATE_NAMES, Pool
from multipool.memory.state import check_keys, host


class ReservoirPool(Pool):
    """Balanced over predicted classes, and over time within a class.

    Full, a class that is not among the largest takes the place of a random item of a random
    largest one. A largest class replaces one of its own m items with probability m / n, n being
    how often it was ever predicted; else the newcomer is turned away.

    Args:
        num_classes: L; labels are -1 (unknown) to L - 1.
        capacity: how many samples it holds, N.
        storage: how images are kept: ``"uint8"`` in a quarter of the space.
        seed: of its random draws.

    Example:
        >>> import torch
        >>> pool = ReservoirPool(num_classes=2, capacity=4)
        >>> pool.add(torch.rand(20, 3, 4, 4), labels=torch.tensor([0] * 18 + [1] * 2))
        >>> pool.retrieve().labels.tolist()
        [0, 0, 1, 1]

    References:
        PBRS of Gong et al., NOTE: Robust Continual Test-time Adaptation Against Temporal
        Correlation, NeurIPS 2022.
    """

    def clear(self) -> None:
        """Return to the state after construction; the counts of predictions start again, too."""
        super().clear()
        self._predicted = [0] * (self.num_classes + 1)  # the last entry counts unknown labels

    def state_dict(self) -> dict[str, Tensor]:
        """Return the pool's state and the counts of predictions ``(L+1,)``, unknown ones last."""
        return {**super().state_dict(), "predicted": torch.tensor(self._predicted)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state, or raise ``ValueError`` and stay as it was."""
        check_keys(state, {*STATE_NAMES, "predicted"})
        predicted = host(state, "predicted", torch.int64, 1).tolist()
        rest = {name: value for name, value in state.items() if name != "predicted"}
        stored = [0] * (self.num_classes + 1)
        for label in state["labels"].flatten().tolist():
            if label in range(-1, self.num_classes):
                stored[int(label)] += 1
        pairs = list(zip(predicted, stored, strict=False))
        now = int(host(state, "now", torch.int64, 0))
        sound = len(predicted) == len(stored) and sum(predicted) == now
        if not sound or any(seen < held for seen, held in pairs):
            raise ValueError(
                f"saved 'predicted' must count {len(stored)} classes, each at least as often as "
                f"it is stored and together the {now} samples seen"
            )
        super().load_state_dict(rest)
        self._predicted = predicted

    def _make_room(self, label: int, uncertainty: float) -> bool:
        self._predicted[label] += 1
        if self._occupied < self.capacity:
            return True
        largest = self._majority()
        if label not in largest:
            self._evict_random(largest[int(self._generator.integers(len(largest)))])
            return True
        if self._generator.random() >= len(self._groups[label]) / self._predicted[label]:
            return False
        self._evict_random(label)
        return True
