"""A pass that ends at a normalisation layer, for what comes before it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.ops.normalise import LayerState, frozen


class ReachedError(Exception):
    """Ends a pass at a layer; never leaves :meth:`Network.before_norm`."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.x = x


@dataclass(frozen=True)
class Until:
    """Normalises with the stored statistics, as far as the layer of ``target``."""

    target: LayerState

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Normalise with the stored statistics; at the target end the pass."""
        self.moments(x, state)
        return frozen(x, state)

    def moments(self, x: Tensor, state: LayerState) -> tuple[Tensor, Tensor]:
        """Return the stored statistics; at the target end the pass."""
        if state is self.target:
            raise ReachedError(x)
        return state.mean, state.var
