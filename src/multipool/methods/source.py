"""Source: the model as it came, the row that every other one is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.engine import Method, Prediction


@dataclass(frozen=True)
class SourceConfig:
    """No hyperparameters."""


class Source(Method):
    """Predicts with the given model and never changes."""

    name = "source"
    Config = SourceConfig

    def predict(self, images: Tensor) -> Prediction:
        """Return the model's own logits."""
        return Prediction(self.network.plain(images))
