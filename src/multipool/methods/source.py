"""Source: the model as it came, the row that every other one is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.engine import Method, Prediction


@dataclass(frozen=True)
class SourceConfig:
    """No hyperparameters."""


class Source(Method):
    """Predicts with the given model and never changes.

    The frozen model: no statistics are taken from the stream and nothing is learned. Every
    table has it, since a method that is worse than it does harm.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`SourceConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "source")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])
    """

    name = "source"
    Config = SourceConfig

    def predict(self, images: Tensor) -> Prediction:
        """Return the model's own logits."""
        return Prediction(self.network.plain(images))
