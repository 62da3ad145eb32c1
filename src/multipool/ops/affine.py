"""Weights and biases of LayerNorm and GroupNorm layers as one flat, trainable vector.

Such layers keep no statistics, so there is nothing to steer: a pass only needs other parameters in
their place for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from multipool.ops.branch import flat_gradient


class LayerAffine:
    """A copy of the affine parameters of every LayerNorm and GroupNorm in ``body``.

    ``affine`` is ``[w_1, b_1, w_2, ...]`` ``(P,)`` float32; ``leaves`` share its storage. The
    body's own parameters never change.
    """

    def __init__(self, body: nn.Module) -> None:
        kinds = (nn.LayerNorm, nn.GroupNorm)
        self._places = [
            (module, name)
            for module in body.modules()
            if isinstance(module, kinds)
            for name in ("weight", "bias")
            if getattr(module, name) is not None
        ]
        own = [getattr(module, name).detach().float() for module, name in self._places]
        self.affine = torch.cat([t.flatten() for t in own]) if own else torch.empty(0)
        parts = self.affine.split([t.numel() for t in own])
        self.leaves = [
            part.view(t.shape).detach().requires_grad_() for part, t in zip(parts, own, strict=True)
        ]

    def __len__(self) -> int:
        """Return how many parameter tensors there are."""
        return len(self.leaves)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the body use our parameters, in its own precision, while this lasts."""
        held = [module._parameters[name] for module, name in self._places]
        try:
            for (module, name), leaf, old in zip(self._places, self.leaves, held, strict=True):
                assert old is not None  # listed because it is there
                # Past setattr, which takes leaves of the graph only.
                module._parameters[name] = leaf.to(old.dtype)
            yield
        finally:
            for (module, name), old in zip(self._places, held, strict=True):
                module._parameters[name] = old

    def gradient(self, loss: Tensor) -> Tensor:
        """Return d loss / d affine as one vector ``(P,)``; layers the loss misses count as 0."""
        return flat_gradient(loss, self.leaves)
