"""Augmentations for training a source model: crop, flip, jitter, AugMix and more; by batches.

Random numbers come from a generator on the host, so that a seed means the same on every device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.ops.host import sent

_CHAINS, _DEPTH, _LEVEL = 3, 3, 3.0  # AugMix's width, longest chain and severity (of 10)
_OPERATIONS = 9
_STRONGEST = 5.0  # RandAugment's magnitude (of 10)
_ROTATE, _SHEAR_X, _SHEAR_Y, _SHIFT_X, _SHIFT_Y = range(5)
_AUTOCONTRAST, _EQUALIZE, _POSTERIZE, _SOLARIZE = range(5, 9)


def crop_and_flip(images: Tensor, generator: torch.Generator, pad: int, flip: bool) -> Tensor:
    """Return each image ``(B, C, H, W)`` shifted by up to ``pad`` pixels and perhaps mirrored.

    What the shift uncovers mirrors the image's border: black bars would be a cue of their own.
    """
    count, _, height, width = images.shape
    rows = torch.randint(0, 2 * pad + 1, (count, 1), generator=generator) + torch.arange(height)
    columns = torch.randint(0, 2 * pad + 1, (count, 1), generator=generator) + torch.arange(width)
    if flip:
        mirrored = torch.rand(count, 1, generator=generator) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    padded = F.pad(images.float(), (pad, pad, pad, pad), mode="reflect").to(images.dtype)
    rows, columns = sent(rows, images.device), sent(columns, images.device)
    index = torch.arange(count, device=images.device).view(-1, 1, 1)
    return padded[index, :, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)


def jitter(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return images ``(B, C, H, W)`` in [0, 1] with contrast, brightness and grain of their own.

    Contrast is scaled by 0.1 to 1.3 about the image's mean, brightness shifted by up to 0.2, and
    normal grain added with a standard deviation of up to 0.07: cheap, and a model that has seen
    them is not thrown by every sensor.
    """
    count = len(images)
    draw = _like(torch.rand(3, count, 1, 1, 1, generator=generator), images)
    contrast, shift, grain = 0.1 + 1.2 * draw[0], 0.4 * draw[1] - 0.2, 0.07 * draw[2]
    noise = _like(torch.randn(images.shape, generator=generator), images)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return ((images - mean) * contrast + mean + shift + grain * noise).clamp(0, 1)


def augmix(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return AugMix of images ``(B, 3, H, W)`` in [0, 1] (Hendrycks et al., ICLR 2020).

    Three chains of one to three operations are mixed by Dirichlet(1) weights, and the mixture
    with the image itself by a Beta(1, 1) weight. No Jensen-Shannon term.
    """
    count = len(images)
    chains = images.repeat(_CHAINS, 1, 1, 1)  # (3 B, 3, H, W)
    depth = torch.randint(1, _DEPTH + 1, (len(chains),), generator=generator)
    for step in range(_DEPTH):
        operation = torch.randint(0, _OPERATIONS, (len(chains),), generator=generator)
        level = torch.empty(len(chains)).uniform_(0.1, _LEVEL, generator=generator)
        sign = torch.where(torch.rand(len(chains), generator=generator) < 0.5, -1.0, 1.0)
        operation[depth <= step] = -1  # this chain has ended
        chains = _apply(chains, operation, level, sign)
    weights = torch.empty(_CHAINS, count).exponential_(generator=generator)
    share = torch.rand(count, generator=generator)
    weights = _like(weights / weights.sum(dim=0) * share, images)  # (3, B), sums to the share
    mixed = (chains.unflatten(0, (_CHAINS, count)) * weights.view(_CHAINS, -1, 1, 1, 1)).sum(dim=0)
    return mixed + images * _like(1 - share, images).view(-1, 1, 1, 1)


def randaugment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Return images ``(B, 3, H, W)`` in [0, 1], each after one operation of any strength to 5.

    RandAugment (Cubuk et al., NeurIPS 2020) with AugMix's nine operations, which leave out those
    that are corruptions of the test sets: brightness, contrast, colour and sharpness.
    """
    operation = torch.randint(0, _OPERATIONS, (len(images),), generator=generator)
    level = torch.empty(len(images)).uniform_(0.1, _STRONGEST, generator=generator)
    sign = torch.where(torch.rand(len(images), generator=generator) < 0.5, -1.0, 1.0)
    return _apply(images, operation, level, sign)


def _apply(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Return each image after its own operation; -1 leaves it as it is."""
    images = images.clone()
    rows = torch.nonzero((operation >= 0) & (operation <= _SHIFT_Y)).flatten()
    if len(rows):
        theta = _affine(operation[rows], level[rows], sign[rows], images.shape[-1])
        here, shape = sent(rows, images.device), [len(rows), *images.shape[1:]]
        grid = F.affine_grid(_like(theta, images), shape, align_corners=False)
        images[here] = F.grid_sample(images[here], grid, align_corners=False)
    for code in (_AUTOCONTRAST, _EQUALIZE, _POSTERIZE, _SOLARIZE):
        rows = torch.nonzero(operation == code).flatten()
        if len(rows):
            here, strength = sent(rows, images.device), _like(level[rows], images)
            images[here] = _tone(images[here], code, strength.view(-1, 1, 1, 1))
    return images


def _like(drawn: Tensor, images: Tensor) -> Tensor:
    """Return numbers drawn on the host where the images are; the host does not wait for them."""
    return sent(drawn.to(images.dtype), images.device)


def _affine(operation: Tensor, level: Tensor, sign: Tensor, side: int) -> Tensor:
    """Return the sampling matrices ``(B, 2, 3)`` of the five geometric operations."""
    angle = sign * (level * 30 / 10).floor() * (math.pi / 180) * (operation == _ROTATE)
    shear = sign * level * 0.3 / 10
    shift = sign * (level * (side / 3) / 10).floor() * 2 / side
    cos, sin, none = angle.cos(), angle.sin(), torch.zeros(())
    top = [
        cos,
        -sin + torch.where(operation == _SHEAR_X, shear, none),
        torch.where(operation == _SHIFT_X, shift, none),
    ]
    low = [
        sin + torch.where(operation == _SHEAR_Y, shear, none),
        cos,
        torch.where(operation == _SHIFT_Y, shift, none),
    ]
    return torch.stack([torch.stack(top, dim=1), torch.stack(low, dim=1)], dim=1)


def _tone(images: Tensor, code: int, level: Tensor) -> Tensor:
    """Return images ``(B, 3, H, W)`` after one of the four tonal operations."""
    if code == _AUTOCONTRAST:
        low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
        return torch.where(high > low, (images - low) / (high - low).clamp(min=1e-6), images)
    if code == _EQUALIZE:
        return _equalize(images)
    if code == _POSTERIZE:
        step = 2.0 ** (4 + (level * 4 / 10).floor())  # grey levels that become one
        return (images * 255 / step).floor() * step / 255
    threshold = (256 - (level * 256 / 10).floor()) / 255
    return torch.where(images >= threshold, 1 - images, images)


def _equalize(images: Tensor) -> Tensor:
    """Return images whose grey levels are spread evenly, channel by channel, in Pillow's steps."""
    flat = (images * 255).round().long().flatten(0, 1).flatten(1)  # (B * 3, H * W)
    counts = torch.zeros(len(flat), 256, device=images.device)
    counts.scatter_add_(1, flat, torch.ones_like(flat, dtype=counts.dtype))
    last = counts.gather(1, flat.amax(dim=1, keepdim=True))  # pixels at the brightest level
    step = ((flat.shape[1] - last) / 255).floor()  # pixels to a grey level, (B * 3, 1)
    darker = counts.cumsum(dim=1) - counts
    level = (((step / 2).floor() + darker) / step.clamp(min=1)).floor().clamp(max=255) / 255
    even = level.gather(1, flat).view_as(images)
    return torch.where((step > 0).view(*images.shape[:2], 1, 1), even, images)
