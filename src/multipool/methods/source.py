"""Source: the model as it came, the row that every other one is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.methods.adapter import Adapter


@dataclass(frozen=True)
class SourceConfig:
    """No hyperparameters."""


class Source(Adapter):
    """Predicts with the given model and never changes."""

    name = "source"
    Config = SourceConfig

    def _predict(self, images: Tensor) -> Tensor:
        return self.network.plain(images)
