"""What a batch looks like, whatever it shows: the log-variances of early features.

The release takes three early layers of an ImageNet VGG-19. A user's model comes without one, so we
take what the first three BatchNorm layers that the source model runs are given.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from multipool.ops import Network
from multipool.ops.until import NotRunError

_LAYERS = 3
_LEAST = 1e-10  # of a variance: a black image has none, and the logarithm of that is no number
_BATCHES = 1000  # styles of source batches between which distances are taken, as released


def moments(network: Network, images: Tensor) -> Tensor:
    """Return each image's mean and mean square of every early channel, ``(B, 2, D)`` float64."""
    layers = network.require_statistics("reservoir").layers
    known = [index for index, state in enumerate(layers) if len(state.mean)]
    found: list[Tensor] = []
    for index in known:
        try:
            x = network.before_norm(images, index).double()
        except NotRunError:  # a layer for other domains, say: the next one will do
            continue
        x = x.flatten(2) if x.ndim > 2 else x[:, :, None]  # (B, C, positions)
        found.append(torch.stack([x.mean(dim=2), x.square().mean(dim=2)], dim=1))
        if len(found) == _LAYERS:
            break
    if not found:
        raise ValueError("method 'reservoir' reads BatchNorm layers and the model runs none of its")
    return torch.cat(found, dim=2)


def style(images: Tensor) -> Tensor:
    """Return log-variances ``(..., D)`` float32 over batches of :func:`moments` ``(..., B, 2, D)``.

    >>> style(torch.tensor([[[0.0], [1.0]], [[2.0], [5.0]]])).exp()  # mean 1, mean square 3
    tensor([2.])
    """
    mean, square = images.mean(dim=-3).unbind(dim=-2)
    return (square - mean.square()).clamp_min(_LEAST).log().float()


def source_styles(
    network: Network, batches: Iterable[Tensor], size: int, draws: np.random.Generator
) -> Tensor:
    """Return the styles ``(1000, D)`` of random batches of ``size`` source images.

    Every image is looked at once; batches are then drawn from what was seen, epoch by epoch.
    Fewer images than a batch are drawn with replacement (ours).
    """
    seen = torch.cat([moments(network, images) for images in batches])
    if len(seen) < 2:
        raise ValueError(f"reservoir needs at least 2 source images, got {len(seen)}")
    found: list[Tensor] = []
    while len(found) < _BATCHES:
        order = draws.permutation(len(seen))
        if len(seen) <= size:
            order = draws.integers(len(seen), size=size)
        whole = len(order) // size
        rows = torch.from_numpy(order[: whole * size]).to(seen.device)
        found += style(seen[rows].unflatten(0, (whole, size))).unbind()
    return torch.stack(found[:_BATCHES])


def threshold(styles: Tensor, quantile: float) -> Tensor:
    """Return the quantile of the distances between styles ``(N, D)``, those of 0 left out, ``()``.

    >>> float(threshold(torch.tensor([[0.0], [1.0], [3.0]]), 1.0))
    3.0
    """
    distances = torch.cdist(styles, styles).triu(diagonal=1)
    return distances[distances > 0].quantile(quantile)
