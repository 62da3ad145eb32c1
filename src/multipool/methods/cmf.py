"""CMF: ROID's loss, and a Kalman filter over the parameters in place of its pull to the source.

Lee and Chang, Continual Momentum Filtering on Parameter Space for Online Test-time Adaptation,
ICLR 2024. Numbers compared with mariodoebler/test-time-adaptation, the random view ours.

The parameters that were good for the domain are taken as hidden; what gradient descent finds is a
noisy observation of them. Three steps after each update: the hidden parameters lean back to the
source (predict), take in the observation by the filter's gain (update), and the network moves
towards them (ensemble).

Facts of the released code where the paper says less: one variance serves all parameters, starting
at 0; its noise q grows with the number of trained parameters and the observation's is 1 - q; the
share of the hidden parameters that an observation leaves is held to 0.89 at least, and from 0.9999
on the observation is not taken in. Predict and update are done in place, so the two kinds of
ensemble that the code names ("lp", "op") are the same. It forgets neither variance nor hidden
parameters when it is reset; ours does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.engine import Context, Kept
from multipool.methods.roid import DiverseSelfTraining
from multipool.ops.optimise import OPTIMIZERS

_USUAL_PARAMETERS = 38_400  # for which the process noise is given: the LayerNorms of a ViT-B
_LEAST_KEPT, _ALL_KEPT = 0.89, 0.9999


@dataclass(frozen=True)
class CMFConfig:
    """Defaults for CIFAR of mariodoebler/test-time-adaptation; ROID's where it is ROID."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    hidden_pull: float = 0.01  # 1 - alpha: share of the source in the hidden parameters
    hidden_share: float = 0.01  # 1 - gamma: share of the hidden ones in the parameters
    process_noise: float = 0.005  # q, of a network with 38,400 trained parameters
    average_rate: float = 0.1  # share of the batch in each update of the average prediction
    temperature: float = 1 / 3  # of the weights by certainty and diversity
    batch_size: int = 64  # B0: divides the loss, also that of a smaller last batch

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of cmf")


class CMF(DiverseSelfTraining):
    """Learns as ROID does and follows a filtered version of itself.

    The loss is ROID's: certain and diverse samples, a random view of them, answers corrected by
    the classes that the batch seems to hold. What a step finds is taken as a noisy observation of
    good parameters that drift slowly; a Kalman filter estimates those, and the network moves a
    little towards the estimate, where ROID moves towards the source. Two forward and two backward
    passes a batch.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`CMFConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "cmf")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Lee and Chang, Continual Momentum Filtering on Parameter Space for Online Test-time
        Adaptation, ICLR 2024.
    """

    name = "cmf"
    Config = CMFConfig

    def __init__(self, context: Context, config: CMFConfig) -> None:
        super().__init__(context, config)
        self.hidden = self.anchor.affine.clone()
        self.variance = torch.zeros((), dtype=torch.float32, device=self.device)
        # The observation's noise is 1 - q, so q must stay below 1, however large the network.
        share = len(self.hidden) / _USUAL_PARAMETERS
        self.noise_share = min(config.process_noise * share, 1.0)

    def keeps(self) -> Kept:
        """Return what learning changes."""
        return {**super().keeps(), "hidden": self.hidden, "variance": self.variance}

    def settle(self, go: Tensor) -> None:
        """Filter the parameters just learned (Eq. 6 to 9) and move them to what comes out."""
        learned, source = self.student.affine, self.anchor.affine
        variance, kept = filtered(self.variance, self.noise_share, 1 - self.config.hidden_pull)
        self.variance.copy_(torch.where(go, variance, self.variance))
        self.hidden.lerp_(source, self.config.hidden_pull * go)
        self.hidden.lerp_(learned, (1 - kept) * go)
        learned.lerp_(self.hidden, self.config.hidden_share * go)


def filtered(variance: Tensor, noise: float, persistence: float) -> tuple[Tensor, Tensor]:
    """Return the hidden variance after one step, and beta, the share of the hidden that stays.

    v <- alpha^2 v + q, beta = (1 - q) / (v + 1 - q), held to 0.89 at least and 1 from 0.9999 on,
    v <- beta v.
    """
    grown = persistence**2 * variance + noise
    kept = ((1 - noise) / (grown + (1 - noise))).clamp_min(_LEAST_KEPT)
    kept = torch.where(kept < _ALL_KEPT, kept, 1.0)
    return kept * grown, kept
