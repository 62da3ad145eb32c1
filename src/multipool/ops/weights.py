"""A network of its own, all of whose parameters move: for methods that train every weight."""

from __future__ import annotations

import copy

from torch import Tensor

from multipool.ops.flat import Flat
from multipool.ops.network import Group, Network
from multipool.ops.normalise import batch


class Weights:
    """A copy of a network with all its parameters in one flat vector ``values`` ``(P,)``.

    Convolutions, linear layers and the affine parameters of normalisation layers, in float32;
    a network in half precision computes with working copies of them.
    """

    def __init__(self, network: Network, *, method: str, trainable: bool = False) -> None:
        self.network = copy.deepcopy(network)
        source = self.network.source
        self.branch = None if source is None else source.copy(trainable=trainable)
        own = [] if self.branch is None else self.branch.leaves
        leaves = [*self.network.body.parameters(), *own]
        if not leaves:
            raise ValueError(f"method '{method}' trains a model's weights and this one has none")
        self.flat = Flat(leaves, trainable=trainable)
        if self.branch is not None:
            # The branch's own vector moved with its leaves, which come last.
            self.branch.affine = self.flat.values[-len(self.branch.affine) :]
        self.values = self.flat.values

    def run(self, *batches: Tensor) -> list[Tensor]:
        """Return the logits of each batch, all in one pass, each under its own statistics."""
        self.flat.refresh()
        layers = self.network.origin if self.branch is None else self.branch
        return self.network.run(*(Group(images, layers, batch) for images in batches))
