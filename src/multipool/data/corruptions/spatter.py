"""Spatter: drops of water (severities 1 to 3) or mud (4 and 5) on the lens."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.parameters import ParameterSet
from multipool.data.corruptions.planes import gaussian

_WATER = (175.0, 238.0, 238.0)  # pale turquoise
_MUD = (63.0, 42.0, 20.0)  # brown


def spatter(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Lay a mask of drops over the image and colour it."""
    level = sets.spatter[severity - 1]
    noise = draws.normal("drops", *images.shape[:3]) * level.std + level.mean
    layer = gaussian(noise, level.sigma)
    layer = torch.where(layer < level.threshold, 0, layer)
    values = images.float()
    if level.mud:
        mask = gaussian((layer > level.threshold).float(), level.amount)
        mask = torch.where(mask < 0.8, 0, mask)[..., None]
        return values * (1 - mask) + mask * _paint(_MUD, images)
    grey = (layer * 255).clamp_(0, 255).byte().cpu().numpy()
    mask = torch.from_numpy(grey * _relief(grey)).to(images.device)  # (B, H, W)
    top = mask.amax(dim=(1, 2), keepdim=True).clamp(min=1e-6)
    return values + (mask / top * level.amount)[..., None] * _paint(_WATER, images)


def _paint(colour: tuple[float, float, float], images: Tensor) -> Tensor:
    """Return the colour as float32 ``(C,)``; its luma for grey images."""
    if images.shape[-1] == 1:
        colour = (0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2],) * 3
    return torch.tensor(colour[: images.shape[-1]], device=images.device)


def _relief(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return how the light falls on drops ``(B, H, W)``: embossed distance to their edges."""
    from scipy import ndimage

    edges = canny_edges(grey, 50, 150)
    # A huge step between images keeps each one's distances to itself.
    distance = ndimage.distance_transform_edt(~edges, sampling=(1e6, 1, 1))
    distance = np.minimum(distance, 20)
    soft = ndimage.uniform_filter(distance, (0, 3, 3), mode="mirror")
    level = _equalised((soft + 1e-6).astype(np.uint8)).astype(np.float32)
    emboss = np.array([[[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]], dtype=np.float32)
    lit = ndimage.correlate(level, emboss, mode="mirror").clip(0, 255)
    return np.rint(ndimage.uniform_filter(lit, (0, 3, 3), mode="mirror")).astype(np.float32)


def canny_edges(grey: NDArray[np.uint8], low: int, high: int) -> NDArray[np.bool_]:
    """Return the edges ``(B, H, W)`` that Canny's detector finds in each image.

    Sobel slopes of size |dx| + |dy|, thinned to ridges; ridges above ``low`` that touch one above
    ``high`` are edges.
    """
    from scipy import ndimage

    values = np.pad(grey.astype(np.int32), ((0, 0), (1, 1), (1, 1)), mode="edge")
    tall = values[:, :-2] + 2 * values[:, 1:-1] + values[:, 2:]  # smoothed downwards
    wide = values[..., :-2] + 2 * values[..., 1:-1] + values[..., 2:]
    across, down = tall[..., 2:] - tall[..., :-2], wide[:, 2:] - wide[:, :-2]
    size = np.abs(across) + np.abs(down)
    weak = (size > low) & _ridges(size, across, down)
    touching = np.zeros((3, 3, 3), dtype=np.int32)
    touching[1] = 1  # neighbours within an image only
    groups, count = ndimage.label(weak, touching)
    strong = np.zeros(count + 1, dtype=np.bool_)
    strong[groups[weak & (size > high)]] = True
    return strong[groups]


def _ridges(
    size: NDArray[np.int32], across: NDArray[np.int32], down: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Say which slopes ``(B, H, W)`` are largest along their direction, in sectors of 45 degrees.

    Of two equal neighbours in a line or column the later one gives way.
    """
    padded = np.pad(size, ((0, 0), (1, 1), (1, 1)))

    def beside(rows: int, columns: int) -> NDArray[np.int32]:
        height, width = size.shape[1:]
        return padded[:, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    flat, steep = np.abs(across), np.abs(down)
    tangent = np.sqrt(2) - 1  # of 22.5 degrees
    level = steep < flat * tangent
    upright = steep > flat / tangent
    falling = (across < 0) == (down < 0)  # the slope points to the lower right, or upper left
    slanted = np.where(
        falling,
        (size > beside(-1, -1)) & (size > beside(1, 1)),
        (size > beside(-1, 1)) & (size > beside(1, -1)),
    )
    straight = np.where(
        level,
        (size > beside(0, -1)) & (size >= beside(0, 1)),
        (size > beside(-1, 0)) & (size >= beside(1, 0)),
    )
    return np.where(level | upright, straight, slanted)


def _equalised(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Spread the histogram of each image ``(B, H, W)`` over 0 to 255; one flat level stays."""
    out = np.empty_like(levels)
    for image, target in zip(levels, out, strict=True):
        counts = np.bincount(image.ravel(), minlength=256)
        first = int(np.flatnonzero(counts)[0])
        others = image.size - counts[first]
        if others == 0:
            target[:] = image
            continue
        above = np.cumsum(counts) - counts[first]
        target[:] = np.rint(above.clip(0) * (255 / others)).astype(np.uint8)[image]
    return out
