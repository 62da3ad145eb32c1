"""NOTE: instance-aware normalisation, and entropy minimised over a balanced reservoir.

Gong et al., NOTE: Robust Continual Test-time Adaptation Against Temporal Correlation, NeurIPS
2022. As run by TRIBE's release under PTTA: the layers are put into an ordinary source model (the
authors train theirs with them) and the loss is the plain mean entropy. Numbers compared with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.engine import Context, FromMemory, Kept, tensor_pass
from multipool.ops import FlatAdam, Group, LayerState, entropy, frozen
from multipool.ops.moments import instance_moments, normalise, positions
from multipool.ops.padding import mean_of


@dataclass(frozen=True)
class NOTEConfig:
    """Settings of TRIBE's release for CIFAR; the authors' own ``lr`` is 1e-4."""

    lr: float = 1e-3
    threshold: float = 4.0  # k: standard errors by which an instance must deviate
    norm_rate: float = 0.01  # share of the memory batch in each statistics update
    update_every: int = 64  # samples, not batches
    samples: int = 64  # asked of the memory at each update


class NOTE(FromMemory):
    """Normalises each image by itself, and learns from a balanced memory.

    Each image is normalised by its own statistics where these differ from the running ones by
    more than chance. The running statistics and the affine parameters are learned from a
    reservoir that is balanced over predicted classes.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`NOTEConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "note")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Gong et al., NOTE: Robust Continual Test-time Adaptation Against Temporal
        Correlation, NeurIPS 2022.
    """

    name = "note"
    needs_norm = "batchnorm"
    Config = NOTEConfig
    takes_memory = "reservoir"

    def __init__(self, context: Context, config: NOTEConfig) -> None:
        super().__init__(context, config)
        self.student = self.network.require_statistics(self.name).copy(trainable=True)
        self.optimizer = FlatAdam(self.student.affine, config.lr)
        self.predicting = InstanceAware(config.threshold)
        self.training = InstanceAware(config.threshold, config.norm_rate)

    def keeps(self) -> Kept:
        """Return the network's parameters and statistics, and the optimiser's state."""
        return {"student": self.student, "optimizer": self.optimizer}

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits of each image by itself."""
        return self.network.run(Group(images, self.student, self.predicting))[0]

    def update(self, stored: Retrieved) -> Tensor:
        """Take one step on stored samples."""
        return self._train_pass(*self.filled(self.images_of(stored)))[0]

    @tensor_pass
    def _train_pass(self, images: Tensor, rows: Tensor | None = None) -> tuple[Tensor, ...]:
        """Take one step on the mean entropy of the stored images."""
        training = replace(self.training, rows=rows)
        (logits,) = self.network.run(Group(images, self.student, training))
        loss = mean_of(entropy(logits), rows)
        self.optimizer.step(self.student.gradient(loss))
        return (loss.detach(),)


def shrink(values: Tensor, threshold: Tensor) -> Tensor:
    """Return sign(v) max(|v| - t, 0): small deviations vanish, large ones lose ``threshold``.

    >>> shrink(torch.tensor([-3.0, 0.5]), torch.tensor(1.0))
    tensor([-2.,  0.])
    """
    return torch.relu(values - threshold) - torch.relu(-values - threshold)


@dataclass(frozen=True)
class InstanceAware:
    """IABN (Gong et al., NeurIPS 2022, Eq. 3 to 5), variances unbiased throughout.

    An instance whose mean or variance deviates from the layer's by more than ``threshold`` (k)
    standard errors is normalised by what is left of the deviation. ``rate`` None: the layer's
    stored statistics, which stay (eval). A number: this batch's statistics, with gradients, and
    the stored ones move by that share towards them.
    """

    threshold: float
    rate: float | None = None
    rows: Tensor | None = None  # (B,) 1 or 0: the others are there to fill the batch up

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x``; in training move ``state.mean`` and ``state.var``."""
        space = positions(x)
        training = self.rate is not None and len(x) * space > 1  # one value has no variance
        if space == 1 and not training:
            return frozen(x, state)
        own_mean, own_var = instance_moments(x, correction=1)  # (B, C) each
        mean, var = state.mean, state.var
        if training:
            mean, var = self._batch_moments(own_mean, own_var, space, state)
        if space == 1:
            return normalise(x, mean, var, state)
        error = ((var + state.eps) / space).sqrt()
        mean_of = mean + shrink(own_mean - mean, self.threshold * error)
        error = (var + state.eps) * math.sqrt(2 / (space - 1))
        var_of = torch.relu(var + shrink(own_var - var, self.threshold * error))
        return normalise(x, mean_of, var_of, state)

    def _batch_moments(
        self, own_mean: Tensor, own_var: Tensor, space: int, state: LayerState
    ) -> tuple[Tensor, Tensor]:
        """Return the batch's moments from those of its instances; move the stored ones."""
        assert self.rate is not None
        if self.rows is None:
            mean = own_mean.mean(dim=0)
            within = (space - 1) * own_var.sum(dim=0)
            between = space * (own_mean - mean).square().sum(dim=0)
            var = (within + between) / (len(own_mean) * space - 1)
        else:
            count = self.rows.sum()
            mean = self.rows @ own_mean / count
            spread = (space - 1) * own_var + space * (own_mean - mean).square()
            var = self.rows @ spread / (count * space - 1)
        with torch.no_grad():
            state.mean.lerp_(mean, self.rate)
            state.var.lerp_(var, self.rate)
        return mean, var
