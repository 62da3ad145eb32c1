"""BatchNorm for models that have none: layers that change nothing until somebody adapts them.

LayerNorm, GroupNorm and their like normalise every image by itself and keep no statistics, so there
is nothing that a shifted stream could be held against. Some hundred unlabelled source images supply
it: in front of each such layer comes a BatchNorm with the mean m and the variance v of what it is
given for them, scaled by sqrt(v + eps) and shifted by m. With these statistics it is the identity;
with those of a domain it gives every channel the mean and the deviation that the model expects.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from multipool.models.measure import AXES, Layout, Moments, measured
from multipool.ops.norms import OfItsOwn, examine

_KINDS = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_LAYERS = dict(zip(AXES, _KINDS, strict=True))
_LAYOUT = ".layout"
MOST = 1000  # images to look at: 200 are as good, and a loader may hold a million


class WithBatchNorm(nn.Module):
    """A normalisation layer and the BatchNorm in front of it.

    Args:
        norm: the layer as it was.
        layout: which axis of its input counts images, which channels, and how many axes there are.
        width: C, its channels.
    """

    # Never equal to itself: torch's fused transformer layer asks two norms whether their eps is the
    # same, and would then pass both of them by.
    eps = float("nan")
    layout: Tensor

    def __init__(self, norm: nn.Module, layout: Layout, width: int) -> None:
        super().__init__()
        self.norm = norm
        self.images, self.channels, axes = layout
        self.batchnorm = _LAYERS[axes](width)
        self.register_buffer("layout", torch.tensor(layout))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return the layer's weight and whatever else the model around it may ask for."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "norm":  # not there yet
                raise
            return getattr(self.norm, name)

    def forward(self, x: Tensor, *more: Any, **named: Any) -> Tensor:  # noqa: ANN401
        """Return what the layer makes of ``x``, normalised channel by channel before."""
        places = (self.images, self.channels)
        rows = self.batchnorm(x.movedim(places, (0, 1)))  # (B, C, ...)
        return self.norm(rows.movedim((0, 1), places), *more, **named)


@torch.no_grad()
def with_batchnorm(model: nn.Module, images: object, most: int = MOST) -> nn.Module:
    """Return a copy with BatchNorm in front of every layer that normalises image by image.

    Its answers are those of the model, but for rounding. All methods can adapt it, also those that
    need BatchNorm.

    Args:
        model: a classifier of float images ``(B, C, H, W)`` in [0, 1], with LayerNorm, GroupNorm or
            their like.
        images: of the source domain, such as the model was trained on; labels are not read. A
            tensor ``(N, C, H, W)``, float in [0, 1] or uint8, a pair of arrays, or a loader.
        most: images to look at.

    Example:
        >>> from multipool.models import build
        >>> model = build("wrn28-1-gn", num_classes=10).eval()
        >>> images = torch.rand(4, 3, 32, 32)
        >>> bool(torch.allclose(with_batchnorm(model, images)(images), model(images), atol=1e-4))
        True
    """
    if most < 2:
        raise ValueError(f"most must be at least 2 images, to take a variance, got {most}")
    model = copy.deepcopy(model).eval()
    layers = [m for m in model.modules() if isinstance(examine(m), OfItsOwn)]
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no normalisation layer without statistics (LayerNorm, "
            "GroupNorm, ...) that a BatchNorm could stand in front of; adapt it as it is"
        )
    found = measured(model, layers, images, most)
    _put_in(model, {layer: _in_front_of(layer, moments) for layer, moments in found.items()})
    return model.eval()


def put_in_stored(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put :class:`WithBatchNorm` layers into a model in place, where saved ``tensors`` have some.

    Their values come with the rest of the state dict.
    """
    made: dict[nn.Module, WithBatchNorm] = {}
    for key, layout in tensors.items():
        name = key.removesuffix(_LAYOUT)
        mean = tensors.get(f"{name}.batchnorm.running_mean")
        if name == key or mean is None:
            continue
        try:
            layer = model.get_submodule(name)
            images, channels, axes = map(int, layout.tolist())
            fits = axes in AXES and {images, channels} <= set(range(axes))
        except (AttributeError, TypeError, ValueError):
            fits = False
        if not fits or images == channels or mean.ndim != 1:
            raise ValueError(f"the BatchNorm saved in front of '{name}' does not fit this model")
        made[layer] = WithBatchNorm(layer, (images, channels, axes), len(mean))
    _put_in(model, made)


def _put_in(model: nn.Module, made: Mapping[nn.Module, nn.Module]) -> None:
    places = list(model.named_modules(remove_duplicate=False))  # a layer may stand in several
    for name, layer in places:
        if layer in made:
            model.set_submodule(name, made[layer])


def _in_front_of(layer: nn.Module, moments: Moments) -> WithBatchNorm:
    """Return the layer with a BatchNorm that does not change what these moments were taken of."""
    like = next(layer.parameters())
    mean, var = moments.mean, moments.var
    made = WithBatchNorm(layer, moments.layout, len(mean)).to(like.device, like.dtype)
    norm = made.batchnorm
    assert norm.running_mean is not None  # a BatchNorm with statistics
    assert norm.running_var is not None
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(var)
    # From the rounded values, so that the two roots cancel.
    norm.weight.copy_((norm.running_var + norm.eps).sqrt())
    norm.bias.copy_(norm.running_mean)
    return made
