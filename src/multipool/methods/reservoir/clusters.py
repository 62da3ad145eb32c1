"""Which styles the stream has shown so far: clusters that are found and move on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multipool.ops import FlatAdam

_RATE, _DECAY = 1e-4, 1e-2  # of AdamW over the centroids: the release's lr and torch's decay
_TINY = 1e-8
_FORGET = 10  # reservoir sampling starts anew after so many times its capacity


@dataclass(frozen=True)
class Match:
    """Where one style belongs, before anything has moved."""

    style: Tensor  # (D,)
    new: bool  # it founds a cluster, the last one
    weights: Tensor  # (K,), a new cluster included: softmax of the negative distances

    @property
    def cluster(self) -> int:
        """The nearest cluster."""
        return int(self.weights.argmax())


class Clusters:
    """Up to ``most`` centroids of styles ``(D,)``, and a sample of the styles seen.

    Centroids are kept as offsets from the source's mean style, which is the first one. All is held
    in tensors of fixed size, in place; ``counts`` has how many clusters there are, how many styles
    are held, and how many were seen since sampling began.
    """

    def __init__(self, source: Tensor, threshold: Tensor, most: int, buffer: int) -> None:
        self.source, self.threshold = source, threshold  # (D,) and ()
        self.most, self._share = most, buffer // most
        self.offsets = source.new_zeros(most, len(source))
        self.styles = source.new_zeros(self._share * most, len(source))
        self.counts = torch.tensor([1, 0, 0], device=source.device)
        self._optimizer = FlatAdam(self.offsets.view(-1), _RATE)

    @property
    def state(self) -> dict[str, Tensor]:
        """What moves, by name."""
        moments = {f"adam.{name}": tensor for name, tensor in self._optimizer.state.items()}
        return {
            "offsets": self.offsets, "styles": self.styles, "counts": self.counts, **moments,
        }  # fmt: skip

    def __len__(self) -> int:
        return int(self.counts[0])

    def match(self, style: Tensor, *, may_found: bool) -> Match:
        """Say which cluster a style belongs to; one too far from all founds its own."""
        centroids = self.offsets[: len(self)] + self.source
        distances = torch.cdist(style[None], centroids)[0]  # (K,)
        far = may_found and len(self) < self.most and bool(distances.amin() > self.threshold)
        if far:
            distances = torch.cat([distances, distances.new_zeros(1)])
        return Match(style, far, (-distances).softmax(dim=0))

    def learn(self, match: Match, draws: np.random.Generator) -> None:
        """Take in a matched style: found its cluster, move all centroids, and sample it."""
        if match.new:
            self.offsets[len(self)] = match.style - self.source
            self.counts[0] += 1
            for tensor in self._optimizer.state.values():
                tensor.zero_()
        held = int(self.counts[1])
        known = torch.cat([self.styles[:held], match.style[None]])
        gradient = torch.zeros_like(self.offsets)
        with torch.enable_grad():
            leaf = self.offsets[: len(self)].detach().requires_grad_()
            loss = spread_loss(known, leaf + self.source)
            gradient[: len(self)] = torch.autograd.grad(loss, leaf)[0]
        self.offsets.mul_(1 - _RATE * _DECAY)
        self._optimizer.step(gradient.view(-1))
        self._sample(match.style, held, draws)

    def _sample(self, style: Tensor, held: int, draws: np.random.Generator) -> None:
        """Keep a uniform sample of the styles seen; its capacity grows with the clusters."""
        capacity, seen = self._share * len(self), int(self.counts[2])
        if held < capacity:
            self.styles[held] = style
            self.counts[1] += 1
        else:
            place = int(draws.integers(seen))
            if place < capacity:
                self.styles[place] = style
            if seen > _FORGET * capacity:
                self.counts[2] = capacity
        self.counts[2] += 1


def spread_loss(styles: Tensor, centroids: Tensor) -> Tensor:
    """Return mean H(p_i) - H(mean p), p_i the softmax of negative distances: minus the information.

    Every style ``(N, D)`` should belong to one centroid ``(K, D)``, and all centroids have some.
    """
    scores = -torch.cdist(styles, centroids)
    p = scores.softmax(dim=1)
    average = p.mean(dim=0)
    doubt = -(p * scores.log_softmax(dim=1)).sum(dim=1).mean()
    return doubt + (average * (average + _TINY).log()).sum()
