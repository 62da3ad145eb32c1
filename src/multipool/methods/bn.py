"""BN: normalise by the statistics of the test batch itself.

Nado et al., Evaluating Prediction-Time Batch Normalization for Robustness under Covariate Shift
(2020); Schneider et al., NeurIPS 2020, for the mixture with source statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.engine import Context, Method, Prediction
from multipool.ops import Group, batch


@dataclass(frozen=True)
class BNConfig:
    """No hyperparameters: the row of the tables uses the batch's statistics alone."""


class BN(Method):
    """Replaces the source statistics by the current batch's; nothing is learned.

    Every batch is normalised by its own mean and variance. That repairs much of a shift if a
    batch is large and shows many classes, and does great harm if it is small or shows few.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`BNConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "bn")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Nado et al., Evaluating Prediction-Time Batch Normalization for Robustness under
        Covariate Shift (2020).
    """

    name = "bn"
    needs_norm = "batchnorm"
    normalises_by = "batch"
    Config = BNConfig

    def __init__(self, context: Context, config: BNConfig) -> None:
        super().__init__(context, config)
        self.branch = self.network.require_statistics(self.name)

    def predict(self, images: Tensor) -> Prediction:
        """Return the logits under the batch's statistics."""
        return Prediction(self.network.run(Group(images, self.branch, batch))[0])
