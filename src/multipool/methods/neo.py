"""NEO: re-centre the features before the last layer; nothing is trained.

Murphy, Danilowski, Chatterjee, Ghosh: NEO: No-Optimization Test-Time Adaptation through Latent
Re-Centering, ICLR 2026. Numbers compared with the authors' release (awesomealex1/NEO).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.methods.adapter import Adapter
from multipool.methods.statistics import obtain

VARIANTS = ("cumulative", "continual")
CENTRES = ("origin", "source")


@dataclass(frozen=True)
class NEOConfig:
    """Defaults of the release: the mean of all features so far goes to the origin.

    The release was made for transformers, whose features lie around the origin. Where features
    are pooled after a ReLU they do not: ``centre="source"`` moves the mean to that of source
    data instead, so that a stream without shift is left alone; it needs ``source``.
    """

    variant: str = "cumulative"  # continual: an exponential average that starts at zero
    rate: float = 0.1  # share of the batch in each update of the continual variant
    centre: str = "origin"  # or source

    def __post_init__(self) -> None:
        lookup(dict.fromkeys(VARIANTS), self.variant, "variant of neo")
        lookup(dict.fromkeys(CENTRES), self.centre, "centre of neo")


class NEO(Adapter):
    """Subtracts the running mean of the features, the current batch included.

    The last layer is linear, so W (h - mu + mu_0) + b = z - W mu + W mu_0 and the mean is kept
    as W mu, the features' part in the logits: L numbers instead of D.
    """

    name = "neo"
    Config = NEOConfig
    watch_every = 0  # the mean of the features does not depend on what was predicted
    config: NEOConfig

    @classmethod
    def uses_source(cls, config: object) -> bool:
        """Source data are read for the source's centre only."""
        return isinstance(config, NEOConfig) and config.centre == "source"

    def _build(self) -> None:
        zeros = torch.zeros(self.setup.num_classes, dtype=torch.float64, device=self.device)
        self.mean = self._keep("mean", zeros)  # (L,): W mu, of no feature yet
        self.centre: Tensor | None = None
        if self.config.centre == "source":
            found = obtain(self.network, self.setup.source, self.setup.num_classes, self.name)
            for part in ("mean", "var", "counts"):
                self._keep(f"statistics.{part}", getattr(found, part))
            counts = found.counts.to(found.mean.dtype)
            self.centre = counts @ found.mean / counts.sum()  # (D,)

    def _predict(self, images: Tensor) -> Tensor:
        return self._look(images)[0]

    def _step(self, images: Tensor) -> Tensor:
        with self._timed("predict"), torch.no_grad():
            logits, mean = self._look(images)
        self._learn(lambda: self._move(mean))
        self._numbers["seen"] += len(images)
        return logits

    def _look(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the re-centred logits ``(B, L)`` and the mean ``(L,)`` that this batch makes."""
        logits = self.network.plain(images)
        origin = torch.zeros_like(self.network.features()[:1])
        bias = self.network.classify(origin)  # (1, L)
        parts = logits.double() - bias  # (B, L): W h
        if self.config.variant == "cumulative":
            count = self._numbers["seen"] + len(images)
            mean = self.mean + (parts - self.mean).sum(dim=0) / count
        else:
            mean = self.mean.lerp(parts.mean(dim=0), self.config.rate)
        shift = mean.to(logits.dtype)
        if self.centre is not None:
            shift = shift - (self.network.classify(self.centre[None]) - bias)[0]
        return logits - shift, mean

    def _move(self, mean: Tensor) -> Tensor:
        """Keep the new mean; return how far it has moved."""
        distance = (mean - self.mean).norm()
        self.mean.copy_(mean)
        return distance
