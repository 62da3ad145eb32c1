"""One network's normalisation state: affine parameters and statistics, in flat vectors.

Networks of one adapter (student, teacher, source) share every frozen weight and differ only here.
One vector each makes the optimiser, the moving average and a snapshot one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from multipool.ops.flat import check_gradient, gradient_scale, scaled
from multipool.ops.normalise import LayerState


class Branch:
    """Affine parameters and statistics of all normalisation layers.

    ``affine`` is ``[w_1, b_1, w_2, b_2, ...]`` ``(P,)`` and ``statistics`` ``[mean_1, var_1, ...]``
    ``(S,)``; ``sizes`` and ``moment_sizes`` say where each is cut, with 0 for what a layer does not
    have. ``layers`` holds views of them, one :class:`LayerState` a layer. A trainable branch has
    leaves that require gradients in place of the affine views. ``dtype`` is what passes compute in.
    """

    def __init__(
        self,
        layers: Sequence[LayerState],
        *,
        trainable: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.dtype = dtype
        if not layers:
            raise ValueError("a branch needs at least one normalisation layer, got none")
        affine = [t.detach() for s in layers for t in (s.weight, s.bias)]
        self.sizes = [len(t) for t in affine]
        self.affine = torch.cat(affine)
        statistics = [t.detach() for s in layers for t in (s.mean, s.var)]
        self.moment_sizes = [t.shape[-1] for t in statistics]
        self.statistics = torch.cat(statistics)
        # Leaves share storage with ``affine``: changing one changes the other.
        self.leaves = [
            part.detach().requires_grad_(trainable) for part in self.affine.split(self.sizes)
        ]
        moments = self.statistics.split(self.moment_sizes)
        rows = zip(
            self.leaves[0::2], self.leaves[1::2], moments[0::2], moments[1::2], layers, strict=True
        )
        self.layers = [LayerState(w, b, m, v, s.eps) for w, b, m, v, s in rows]

    def copy(self, *, trainable: bool = False) -> Branch:
        """Return an independent branch with the same values."""
        return Branch(self.layers, trainable=trainable, dtype=self.dtype)

    @property
    def has_statistics(self) -> bool:
        """Whether any layer keeps statistics, as BatchNorm does."""
        return len(self.statistics) > 0

    def gradient(self, loss: Tensor) -> Tensor:
        """Return d loss / d affine as one vector ``(P,)``; layers the loss misses count as 0."""
        check_gradient(loss)
        scale = gradient_scale(self.dtype)
        parts = torch.autograd.grad(scaled(loss, scale), self.leaves, allow_unused=True)
        found = torch.cat(
            [
                torch.zeros_like(t) if g is None else g
                for g, t in zip(parts, self.leaves, strict=True)
            ]
        )
        return scaled(found, 1 / scale)

    @property
    def state(self) -> dict[str, Tensor]:
        """What moves, by name."""
        if not self.has_statistics:
            return {"affine": self.affine}
        return {"affine": self.affine, "statistics": self.statistics}

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle by values: the views must share the memory of their own vectors."""
        layers = [
            LayerState(s.weight.detach(), s.bias.detach(), s.mean, s.var, s.eps)
            for s in self.layers
        ]
        trainable = self.leaves[0].requires_grad
        return {"layers": layers, "trainable": trainable, "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Lay the vectors out anew."""
        Branch.__init__(self, **state)
