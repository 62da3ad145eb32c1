"""A network whose LayerNorm and GroupNorm layers are trained, for models without BatchNorm.

Such layers keep no statistics, so there is nothing to steer: their weights and biases are all.
"""

from __future__ import annotations

import copy

from torch import Tensor, nn

from multipool.ops.flat import Flat, gradients
from multipool.ops.network import Network


class LayerAffine:
    """A copy of a network with the affine parameters of such layers in one vector ``(P,)``.

    ``values`` is ``[w_1, b_1, w_2, ...]`` in float32.
    """

    def __init__(self, network: Network, *, method: str) -> None:
        self.network = copy.deepcopy(network)
        # Torch's CPU backward of GroupNorm crashes on channels last if only w and b want gradients.
        for parameter in self.network.body.parameters():
            parameter.data = parameter.data.contiguous()
        kinds = (nn.LayerNorm, nn.GroupNorm)
        layers = [m for m in self.network.body.modules() if isinstance(m, kinds)]
        leaves = [p for layer in layers for p in layer.parameters(recurse=False)]
        if not leaves:
            raise ValueError(
                f"method '{method}' trains the affine parameters of BatchNorm, LayerNorm or "
                "GroupNorm layers and this model has none; choose a method that works without "
                "(source, lame, neo)"
            )
        self.flat = Flat(leaves, trainable=True)
        self.values = self.flat.values

    def run(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)``."""
        self.flat.refresh()
        return self.network.plain(images.contiguous())

    def gradient(self, loss: Tensor) -> Tensor:
        """Return d loss / d values, ``(P,)``; layers the loss misses count as 0."""
        return gradients(loss, self.flat)[0]
