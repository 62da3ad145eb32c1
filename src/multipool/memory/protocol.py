"""What every bank offers to a method, whatever it keeps and however it chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from multipool.core import Retrieved

EVENTS = ("added", "spawned", "merged", "replaced", "rejected")


def new_events() -> dict[str, int]:
    """Return all counters at zero."""
    return dict.fromkeys(EVENTS, 0)


@runtime_checkable
class Memory(Protocol):
    """A bank: stores samples of the stream and hands some back for adaptation."""

    @property
    def capacity(self) -> int:
        """N, the number that losses divide ages by."""

    @property
    def num_classes(self) -> int:
        """L, the number of classes; labels are -1 (unknown) to L-1."""

    @property
    def events(self) -> dict[str, int]:
        """What happened since construction: ``EVENTS``, each with its number."""

    def add(
        self,
        images: Tensor,
        uncertainty: Tensor | None = None,
        labels: Tensor | None = None,
        features: Tensor | None = None,
    ) -> None:
        """Offer images ``(B, C, H, W)`` with uncertainty ``(B,)`` in nats and labels ``(B,)``."""

    def retrieve(self, n: int | None = 64) -> Retrieved:
        """Return about ``n`` samples, all of them for ``None``."""

    def clear(self) -> None:
        """Return to the state after construction: empty, first index, first random draw."""

    def __len__(self) -> int: ...

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next decisions depend on, flat, str to Tensor."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state, or raise ``ValueError`` and stay as it was."""
