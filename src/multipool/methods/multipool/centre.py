"""The centre of a stream's features, each class counting the same, as far as all are seen.

The last layer is linear, so W (h - mu) + b = z - W mu: the centre is kept as W mu, as in NEO. Over
its own classes, each counting the same, a model's logits are about alike; what a stream moves them
by is its shift. Where it shows few classes their mean is no centre, and nothing is taken off.

Several memories are kept. A short one knows the last domain best, but where classes come in runs
it has seen few of them: the shortest decides that has seen about as many as any.

A model need not be centred on its own images. There its mean answer is even as it is, and what the
centre takes off makes it uneven: so it is taken off only while the mean answer is evener by it, and
by more than chance makes the answers of so few images uneven.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MEMORIES = (125.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0)  # images, of up to 100 classes
_JUDGES = 3  # the shortest of them by which answers with and without the centre are compared
_ALL = 0.7  # of the way from the least share of the classes to all: there the centre counts fully
_ENOUGH = 0.95  # of the classes seen by any memory, with which one is taken before longer ones
_UNSEEN = 1.5  # times (K - 1) / n: what n images of K classes lack in entropy, half of it by theory
_FIRST = 16.0  # images that not knowing the centre is worth


class Centre:
    """Keeps the mean of W h over the stream, images weighted by the rarity of their class.

    Args:
        bias: b ``(L,)``, of the last layer.
        least: share of the classes that a stream must show before anything is taken off.
    """

    def __init__(self, bias: Tensor, least: float) -> None:
        self._bias, self._least = bias.double(), least
        lengths = self._bias.new_tensor(_MEMORIES)[:, None] * max(1.0, len(bias) / 100)
        self._keep = 1 - 1 / lengths  # (M, 1)
        nothing = self._bias.new_zeros(len(lengths), len(bias))
        self.state = {
            "counts": nothing.clone(),  # images of each predicted class
            "total": nothing.clone(),  # of W h, weighted
            "sums": self._bias.new_zeros(len(lengths), 3),  # of weights, images, and their squares
            # Of the probabilities of each class, as the model answers and with the centre.
            "answers": torch.stack([nothing, nothing], dim=1),  # (M, 2, L)
        }

    def moved(self, logits: Tensor) -> dict[str, Tensor]:
        """Return the state after a batch of logits ``(B, L)``; it is not kept."""
        labels, exact, old = logits.argmax(dim=1), logits.double(), self.state
        keep = self._keep ** len(logits)
        ones = keep.new_ones(len(keep), len(logits))
        counts = (old["counts"] * keep).index_add(1, labels, ones)  # (M, L)
        rarity = 1 / counts[:, labels]  # (M, B)
        total = old["total"] * keep + rarity @ (exact - self._bias)
        images = ones.sum(dim=1)
        added = torch.stack([rarity.sum(dim=1), images, images], dim=1)
        sums = old["sums"] * torch.cat([keep, keep, keep.square()], dim=1) + added
        state = {"counts": counts, "total": total, "sums": sums}
        both = torch.stack([exact, exact - self._offset(state)[0]]).softmax(dim=2).sum(dim=1)
        return {**state, "answers": old["answers"] * keep[:, :, None] + both}

    def shift(self, state: dict[str, Tensor]) -> Tensor:
        """Return what is taken off all logits, ``(L,)``; 0 where answers are not evener by it.

        H of the mean answer must grow by more than (L - 1) / 2n, which n images lack by chance.
        """
        offset, chosen = self._offset(state)
        judge = chosen.clamp(min=_JUDGES)
        answers = state["answers"].index_select(0, judge)[0]  # (2, L)
        plain, centred = _entropy(answers).unbind()
        chance = (len(offset) - 1) / (2 * _independent(state).index_select(0, judge)[0])
        return offset * (centred > plain + chance)

    def _offset(self, state: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return w W mu ``(L,)`` of the memory that decides, and which it is, ``(1,)``.

        w = m / (m + 16) min(1, (S - s) / (0.7 (1 - s))), at least 0; m images, s the least share of
        the classes, S the share that was seen: exp(H + 1.5 (e^H - 1) / n) / L, H the entropy of the
        predicted classes of n images.
        """
        counts, entropy = state["counts"], _entropy(state["counts"])  # (M, L) and (M,)
        unseen = _UNSEEN * (entropy.exp() - 1) / _independent(state)
        seen = ((entropy + unseen).exp() / counts.shape[1]).clamp(max=1)
        gate = ((seen - self._least) / (_ALL * (1 - self._least))).clamp(0, 1)
        chosen = (seen >= _ENOUGH * seen.max()).byte().argmax(dim=0)[None]  # the first such
        weight, images, _ = state["sums"].unbind(dim=1)
        shifts = (gate * images / (images + _FIRST) / weight)[:, None] * state["total"]
        return shifts.index_select(0, chosen)[0], chosen

    def take(self, state: dict[str, Tensor]) -> Tensor:
        """Keep a state; return how far the sum has moved."""
        distance = (state["total"] - self.state["total"]).norm()
        for name, value in self.state.items():
            value.copy_(state[name])
        return distance


def _entropy(sums: Tensor) -> Tensor:
    """Return the entropy of shares, from sums ``(..., L)``."""
    return torch.special.entr(sums / sums.sum(dim=-1, keepdim=True)).sum(dim=-1)


def _independent(state: dict[str, Tensor]) -> Tensor:
    """Return how many images of equal weight each memory's are worth, ``(M,)``."""
    _, images, squares = state["sums"].unbind(dim=1)
    return images.square() / squares
