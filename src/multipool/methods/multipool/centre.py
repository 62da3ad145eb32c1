"""The centre of a stream's features, each class counting the same, as far as all are seen.

The last layer is linear, so W (h - mu) + b = z - W mu: the centre is kept as W mu, as in NEO. Over
its own classes, each counting the same, a model's logits are about alike; what a stream moves them
by is its shift. Where it shows few classes their mean is no centre, and nothing is taken off.

Several memories are kept. A short one knows the last domain best, but where classes come in runs
it has seen few of them: the shortest decides that has seen about as many as any.

A model need not be centred on its own images. There its mean answer is even as it is, and what the
centre takes off makes it uneven: so it is taken off only while the mean answer is evener by it.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MEMORIES = (500.0, 1000.0, 2000.0, 4000.0, 8000.0)  # images of 100 classes or fewer; else more
_ALL = 0.7  # of the way from the least share of the classes to all: there the centre counts fully
_ENOUGH = 0.95  # of the classes seen by any memory, with which one is taken before longer ones
_ANSWERS = 1000.0  # images over which answers with and without the centre are held to each other
_FIRST = 16.0  # images that not knowing the centre is worth


class Centre:
    """Keeps the mean of W h over the stream, images weighted by the rarity of their class.

    Args:
        bias: b ``(L,)``, of the last layer.
        least: share of the classes that a stream must show before anything is taken off.
    """

    def __init__(self, bias: Tensor, least: float) -> None:
        self._bias, self._least = bias.double(), least
        longer = max(1.0, len(bias) / 100)
        lengths = self._bias.new_tensor(_MEMORIES)[:, None] * longer
        self._keep = 1 - 1 / lengths  # (M, 1)
        self._keep_answers = 1 - 1 / (_ANSWERS * longer)
        nothing = self._bias.new_zeros(len(lengths), len(bias))
        # Images of each predicted class; the weighted sum of W h; that of weights, and of images.
        sums = self._bias.new_zeros(len(lengths), 2)
        # Sums of the probabilities of each class, as the model answers and with the centre.
        answers = self._bias.new_zeros(2, len(bias))
        made = {"counts": nothing.clone(), "total": nothing.clone(), "sums": sums}
        self.state = {**made, "answers": answers}

    def moved(self, logits: Tensor) -> dict[str, Tensor]:
        """Return the state after a batch of logits ``(B, L)``; it is not kept."""
        labels, old = logits.argmax(dim=1), self.state
        keep = self._keep ** len(logits)
        ones = keep.new_ones(len(keep), len(logits))
        counts = (old["counts"] * keep).index_add(1, labels, ones)  # (M, L)
        rarity = 1 / counts[:, labels]  # (M, B)
        total = old["total"] * keep + rarity @ (logits.double() - self._bias)
        sums = old["sums"] * keep + torch.stack([rarity.sum(dim=1), ones.sum(dim=1)], dim=1)
        made = {"counts": counts, "total": total, "sums": sums}
        exact = logits.double()
        both = torch.stack([exact, exact - self._offset(made)]).softmax(dim=2).sum(dim=1)  # (2, L)
        answers = old["answers"] * self._keep_answers ** len(logits) + both
        return {**made, "answers": answers}

    def shift(self, state: dict[str, Tensor]) -> Tensor:
        """Return what is taken off all logits, ``(L,)``; 0 where answers are no evener by it."""
        share = state["answers"] / state["answers"].sum(dim=1, keepdim=True)
        plain, centred = torch.special.entr(share).sum(dim=1).unbind()
        return self._offset(state) * (centred > plain)

    def _offset(self, state: dict[str, Tensor]) -> Tensor:
        """Return w W mu of one memory, ``(L,)``.

        w = n / (n + 16) min(1, (e^H / L - s) / (0.7 (1 - s))), at least 0; n images, H the entropy
        of the predicted classes, s the least share of the classes: nothing below it.
        """
        share = state["counts"] / state["counts"].sum(dim=1, keepdim=True)
        seen = torch.special.entr(share).sum(dim=1).exp() / share.shape[1]  # (M,)
        gate = ((seen - self._least) / (_ALL * (1 - self._least))).clamp(0, 1)
        chosen = (seen >= _ENOUGH * seen.max()).byte().argmax(dim=0)  # the first such
        weight, images = state["sums"].unbind(dim=1)
        shifts = (gate * images / (images + _FIRST) / weight)[:, None] * state["total"]
        return shifts.index_select(0, chosen[None])[0]

    def take(self, state: dict[str, Tensor]) -> Tensor:
        """Keep a state; return how far the sum has moved."""
        distance = (state["total"] - self.state["total"]).norm()
        for name, value in self.state.items():
            value.copy_(state[name])
        return distance
