"""What a method says about a batch, and a bank is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from multipool.decode import Said


@dataclass(frozen=True)
class Prediction:
    """What is said about a batch before anything is learned from it.

    Args:
        logits: (B, L).
        labels: (B,), what a bank is told; on the host if a decoder says it.
        doubt: (B,) in nats, likewise.
        features: (B, D) float, where the method or its bank reads them.
        on_host: the logits again, where the method has had them copied.
        said: what was said of the domain of each sample before, where a method knows domains.
    """

    logits: Tensor
    labels: Tensor | None = None
    doubt: Tensor | None = None
    features: Tensor | None = None
    on_host: Tensor | None = None
    said: Said | None = field(default=None, kw_only=True)

    @property
    def nearest(self) -> Tensor:
        """The logits where the host reads them soonest."""
        return self.logits if self.on_host is None else self.on_host

    def host_logits(self) -> Tensor:
        """Return the logits on the host; waits for the device unless they are there already."""
        return self.nearest.cpu()

    def rows(self, chosen: slice | Tensor) -> Prediction:
        """Return the same about some of the samples."""
        parts = (self.labels, self.doubt, self.features)
        about = (None if p is None else _rows(p, chosen) for p in parts)
        return Prediction(_rows(self.logits, chosen), *about)

    def decoded(self, labels: Tensor, doubt: Tensor) -> Prediction:
        """Return the same with what a decoder says, for banks; logits stay as they are."""
        if self.labels is None or self.doubt is None:
            return self
        return replace(self, labels=labels, doubt=doubt)

    def with_logits(self, logits: Tensor) -> Prediction:
        """Return the same with other logits."""
        return replace(self, logits=logits, on_host=None)


def _rows(values: Tensor, chosen: slice | Tensor) -> Tensor:
    """Return some rows, whose numbers may be on the device of other values."""
    return values[chosen if isinstance(chosen, slice) else chosen.to(values.device)]
