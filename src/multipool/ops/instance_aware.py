"""NOTE's instance-aware normalisation: each image corrects the statistics it is normalised by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.ops.moments import instance_moments, normalise, positions
from multipool.ops.normalise import LayerState, frozen


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
        mean = own_mean.mean(dim=0)
        within = (space - 1) * own_var.sum(dim=0)
        between = space * (own_mean - mean).square().sum(dim=0)
        var = (within + between) / (len(own_mean) * space - 1)
        with torch.no_grad():
            state.mean.lerp_(mean, self.rate)
            state.var.lerp_(var, self.rate)
        return mean, var
