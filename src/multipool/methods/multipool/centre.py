"""The centre of a stream's features, each class counting the same, as far as all are seen.

The last layer is linear, so W (h - mu) + b = z - W mu: the centre is kept as W mu, as in NEO. After
a LayerNorm features lie around the origin; what a stream moves their centre by is its shift. Where
it shows few classes their mean is no centre, and nothing is taken off.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MEMORY, _EACH = 500, 5  # images that are remembered, or so many of each class if that is more
_FIRST = 16.0  # images that not knowing the centre is worth


class Centre:
    """Keeps the mean of W h over the stream, images weighted by the rarity of their class.

    Args:
        bias: b ``(L,)``, of the last layer.
        least: share of the classes that a stream must show before anything is taken off.
    """

    def __init__(self, bias: Tensor, least: float) -> None:
        self._bias, self._least = bias.double(), least
        self._keep = 1 - 1 / max(_MEMORY, _EACH * len(bias))
        nothing = torch.zeros_like(self._bias)
        # Images of each predicted class; the weighted sum of W h; that of weights, and of images.
        sums = self._bias.new_zeros(2)
        self.state = {"counts": nothing.clone(), "total": nothing.clone(), "sums": sums}

    def moved(self, logits: Tensor) -> dict[str, Tensor]:
        """Return the state after a batch of logits ``(B, L)``; it is not kept."""
        labels, old = logits.argmax(dim=1), self.state
        keep = self._keep ** len(logits)
        one = torch.ones(len(logits), dtype=self._bias.dtype, device=logits.device)
        counts = (old["counts"] * keep).index_add(0, labels, one)
        rarity = 1 / counts[labels]  # (B,)
        total = old["total"] * keep + rarity @ (logits.double() - self._bias)
        sums = old["sums"] * keep + torch.stack([rarity.sum(), one.sum()])
        return {"counts": counts, "total": total, "sums": sums}

    def shift(self, state: dict[str, Tensor]) -> Tensor:
        """Return what is taken off all logits, ``(L,)``: w W mu.

        w = n / (n + 16) (e^H / L - s) / (1 - s), at least 0; n images, H the entropy of the
        predicted classes, s the least share of the classes: none below it, all of W mu if all L
        are seen alike.
        """
        share = state["counts"] / state["counts"].sum()
        seen = torch.special.entr(share).sum().exp() / len(share)
        weight, images = state["sums"]
        gate = ((seen - self._least) / (1 - self._least)).clamp_min(0) * images / (images + _FIRST)
        return gate * state["total"] / weight

    def take(self, state: dict[str, Tensor]) -> Tensor:
        """Keep a state; return how far the sum has moved."""
        distance = (state["total"] - self.state["total"]).norm()
        for name, value in self.state.items():
            value.copy_(state[name])
        return distance
