"""What a method says about a batch, and a bank is told."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True)
class Prediction:
    """What is said about a batch before anything is learned from it."""

    logits: Tensor  # (B, L)
    labels: Tensor | None = None  # (B,) what a bank is told
    doubt: Tensor | None = None  # (B,) nats, likewise
    features: Tensor | None = None  # (B, D) float, where the method or its bank reads them

    def rows(self, chosen: slice | Tensor) -> Prediction:
        """Return the same about some of the samples."""
        parts = (self.labels, self.doubt, self.features)
        return Prediction(self.logits[chosen], *(None if p is None else p[chosen] for p in parts))

    def decoded(self, labels: Tensor, doubt: Tensor) -> Prediction:
        """Return the same with what a decoder says, for banks; logits stay as they are."""
        if self.labels is None or self.doubt is None:
            return self
        return replace(self, labels=labels, doubt=doubt)

    def with_logits(self, logits: Tensor) -> Prediction:
        """Return the same with other logits."""
        return replace(self, logits=logits)
