"""A pass that ends at a normalisation layer, for what comes before it, or notes all it meets."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from multipool.ops.normalise import LayerState, frozen


class ReachedError(Exception):
    """Ends a pass at a layer; never leaves :meth:`Network.before_norm`."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.x = x


class NotRunError(ValueError):
    """Says that a pass was to end at a layer which the model has but never runs."""


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


@dataclass(frozen=True)
class Passed:
    """Normalises with the stored statistics and notes which layers were run, by identity."""

    states: set[int] = field(default_factory=set)

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Note the layer and normalise."""
        self.states.add(id(state))
        return frozen(x, state)
