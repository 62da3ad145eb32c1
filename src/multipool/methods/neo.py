"""NEO: re-centre the features before the last layer; nothing is trained.

Murphy, Danilowski, Chatterjee, Ghosh: NEO: No-Optimization Test-Time Adaptation through Latent
Re-Centering, ICLR 2026. Numbers compared with the authors' release (awesomealex1/NEO).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.engine import Context, Kept, Method, Prediction, Update

VARIANTS = ("cumulative", "continual")
CENTRES = ("origin", "source")


@dataclass(frozen=True)
class NEOConfig:
    """Defaults of the release: the mean of all features so far goes to the origin.

    The release was made for transformers, whose features lie around the origin. Where features
    are pooled after a ReLU they do not: ``centre="source"`` moves the mean to that of source
    data instead, so that a stream without shift is left alone; it needs ``source``.
    """

    variant: str = "cumulative"  # or continual: an exponential average that starts at zero
    rate: float = 0.1  # share of the batch in each update of the continual variant
    centre: str = "origin"  # what features are moved to; or source

    def __post_init__(self) -> None:
        lookup(dict.fromkeys(VARIANTS), self.variant, "variant of neo")
        lookup(dict.fromkeys(CENTRES), self.centre, "centre of neo")


class NEO(Method):
    """Subtracts the running mean of the features, the current batch included.

    The mean of the features before the last layer is moved back to the origin, where it was for
    the source data; a running mean stands in for it. There is no gradient and no second pass.

    The last layer is linear, so W (h - mu + mu_0) + b = z - W mu + W mu_0 and the mean is kept
    as W mu, the features' part in the logits: L numbers instead of D.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`NEOConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "neo")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Murphy, Danilowski, Chatterjee, Ghosh: NEO: No-Optimization Test-Time Adaptation
        through Latent Re-Centering, ICLR 2026.
    """

    name = "neo"
    reads_features = True
    Config = NEOConfig
    self_training = False  # the mean of the features does not depend on what was predicted

    @classmethod
    def uses_source(cls, config: object) -> bool:
        """Source data are read for the source's centre only."""
        return isinstance(config, NEOConfig) and config.centre == "source"

    def __init__(self, context: Context, config: NEOConfig) -> None:
        super().__init__(context, config)
        # (L,): W mu, of no feature yet
        self.mean = torch.zeros(self.num_classes, dtype=torch.float64, device=self.device)
        self.statistics = self.source.statistics() if config.centre == "source" else None
        self.centre: Tensor | None = None
        if self.statistics is not None:
            counts = self.statistics.counts.to(self.statistics.mean.dtype)
            self.centre = counts @ self.statistics.mean / counts.sum()  # (D,)

    def keeps(self) -> Kept:
        """Return the mean, and the source's statistics where they are its centre."""
        kept: Kept = {"mean": self.mean}
        return kept if self.statistics is None else {**kept, "statistics": self.statistics}

    def predict(self, images: Tensor) -> Prediction:
        """Return the logits re-centred by the mean that this batch makes."""
        logits = self.network.plain(images)
        origin = torch.zeros_like(self.network.features()[:1])
        bias = self.network.classify(origin)  # (1, L)
        parts = logits.double() - bias  # (B, L): W h
        shift = self._moved(parts).to(logits.dtype)
        if self.centre is not None:
            shift = shift - (self.network.classify(self.centre[None]) - bias)[0]
        return Prediction(logits - shift, features=parts)

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Keep the mean that this batch makes."""
        assert prediction.features is not None  # see predict
        yield partial(self._move, self._moved(prediction.features))

    def _moved(self, parts: Tensor) -> Tensor:
        """Return the mean ``(L,)`` after a batch of features' parts ``(B, L)``."""
        if self.config.variant == "continual":
            return self.mean.lerp(parts.mean(dim=0), self.config.rate)
        count = self.numbers["seen"] + len(parts)
        return self.mean + (parts - self.mean).sum(dim=0) / count

    def _move(self, mean: Tensor) -> Tensor:
        """Keep the new mean; return how far it has moved."""
        distance = (mean - self.mean).norm()
        self.mean.copy_(mean)
        return distance
