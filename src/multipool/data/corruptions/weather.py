"""Weather: snow, fog and frost."""

from __future__ import annotations

import torch
from torch import Tensor

from multipool.data.corruptions.blur import smear
from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.frost import frost_textures
from multipool.data.corruptions.parameters import ParameterSet
from multipool.data.corruptions.planes import zoom, zoom_crop


def luma(images: Tensor) -> Tensor:
    """Return the grey level of ``(B, H, W, C)`` as float32 ``(B, H, W, 1)``."""
    if images.shape[-1] == 1:
        return images.float()
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device)
    return (images.float() @ weights)[..., None]


def snow(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Whiten the image and add streaks of flakes, once as they are and once turned round."""
    level = sets.snow[severity - 1]
    batch, height, width, _ = images.shape
    rows, columns = zoom_crop(height, width, level.zoom)
    noise = draws.normal("flakes", batch, 1, rows.stop - rows.start, columns.stop - columns.start)
    flakes = zoom(noise * level.std + level.mean, height, width, level.zoom)[:, 0]
    flakes = torch.where(flakes < level.threshold, 0, flakes).clamp_(0, 1)
    angles = draws.uniform("angle", batch) * 90 - 135
    flakes = smear((flakes * 255).floor_()[..., None], level.streak, angles)  # (B, H, W, 1)
    values = images.float()
    white = torch.maximum(values, luma(images) * 1.5 + 127.5)
    kept = torch.lerp(white, values, level.keep)
    return kept + flakes + flakes.flip(1, 2)


def fog(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Add a cloud and scale back, so that the brightest possible value stays what it was."""
    level = sets.fog[severity - 1]
    _, height, width, _ = images.shape
    brightest = images.flatten(1).amax(dim=1).view(-1, 1, 1, 1).float()
    size = 1 << (max(height, width) - 1).bit_length()
    cloud = plasma(draws, len(images), size, level.decay)[:, :height, :width, None]
    share = brightest / (brightest + 255 * level.amount)
    return (images + cloud * (255 * level.amount)) * share


def plasma(draws: Draws, batch: int, size: int, decay: float) -> Tensor:
    """Return fractal clouds ``(B, size, size)`` in [0, 1], by midpoint displacement on a torus.

    The diamond-square scheme: centres of squares, then of edges, are the mean of four neighbours
    plus a uniform number; its range is ``wibble ** 2``, where ``wibble`` falls by ``decay`` at
    every halving of the step.
    """
    cloud = torch.zeros(batch, size, size, device=draws.device)
    step, wibble = size, 100.0
    while step >= 2:
        half = step // 2
        cells = size // step
        jitter = draws.uniform(f"cloud{step}", batch, 3, cells, cells).mul_(2).sub_(1)
        jitter *= wibble * wibble
        corner = cloud[:, ::step, ::step]
        pairs = corner + corner.roll(-1, 1)
        centre = (pairs + pairs.roll(-1, 2)) / 4 + jitter[:, 0]
        cloud[:, half::step, half::step] = centre
        across = centre + centre.roll(1, 1) + corner + corner.roll(-1, 2)
        cloud[:, ::step, half::step] = across / 4 + jitter[:, 1]
        along = centre + centre.roll(1, 2) + corner + corner.roll(-1, 1)
        cloud[:, half::step, ::step] = along / 4 + jitter[:, 2]
        step, wibble = half, wibble / decay
    flat = cloud.flatten(1)
    low, high = flat.aminmax(dim=1, keepdim=True)
    return ((flat - low) / (high - low)).view_as(cloud)


def frost(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Add a random crop of one of five photographs (or drawings) of ice on a window."""
    level = sets.frost[severity - 1]
    batch, height, width, channels = images.shape
    textures = frost_textures(sets.frost_scale, height, width)
    chosen = draws.below("texture", len(textures), batch, 1)[:, 0].tolist()
    places = draws.uniform("place", batch, 2).tolist()
    ice = torch.empty(batch, height, width, 3)
    for row, (which, (down, right)) in enumerate(zip(chosen, places, strict=True)):
        texture = textures[which]
        top = int(down * max(texture.shape[0] - height, 1))
        left = int(right * max(texture.shape[1] - width, 1))
        ice[row] = texture[top : top + height, left : left + width]
    ice = ice.to(images.device)
    if channels == 1:
        ice = luma(ice)
    return ice.mul_(level.texture).add_(images, alpha=level.image)
