"""Blur: Gaussian, defocus, glass, motion and zoom."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.data.corruptions.draws import Draws
from multipool.data.corruptions.parameters import Defocus, Motion, ParameterSet
from multipool.data.corruptions.planes import (
    gaussian,
    to_pixels,
    to_planes,
    zoom,
    zoom_crop,
)


def gaussian_blur(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Blur with a Gaussian."""
    return to_pixels(gaussian(to_planes(images), sets.gaussian_blur[severity - 1]))


def defocus_blur(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Blur with a disk whose edge is softened."""
    kernel = _disk(sets.defocus_blur[severity - 1])  # (k, k)
    planes = to_planes(images)
    height, width = planes.shape[-2:]
    padded = _mirror(planes, len(kernel) // 2)
    if len(kernel) > 7:  # measured: from here on the Fourier transform is faster
        return to_pixels(_fourier(padded, kernel.to(images.device)))
    total = torch.zeros_like(planes)
    for top, left in kernel.nonzero().tolist():
        part = padded[..., top : top + height, left : left + width]
        total.add_(part, alpha=float(kernel[top, left]))
    return to_pixels(total)


def zoom_blur(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Average the image with zooms of its centre."""
    level = sets.zoom_blur[severity - 1]
    factors = np.arange(1, level.stop, level.step)
    # Channels stay last in memory: torch enlarges such images three times as fast.
    planes = images.float().permute(0, 3, 1, 2)
    height, width = planes.shape[-2:]
    total = planes.clone()
    for factor in factors:
        rows, columns = zoom_crop(height, width, factor)
        total += zoom(planes[..., rows, columns], height, width, factor)
    return to_pixels(total / (len(factors) + 1))


def motion_blur(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Smear each image in its own direction, within 45 degrees of the horizontal."""
    angles = draws.uniform("angle", len(images)) * 90 - 45
    return smear(images.float(), sets.motion_blur[severity - 1], angles)


def smear(images: Tensor, motion: Motion, degrees: Tensor) -> Tensor:
    """Smear ``(B, H, W, C)`` along ``degrees`` ``(B,)`` as ImageMagick's motion blur does.

    A half Gaussian of ``2 radius + 1`` whole-pixel steps, edges repeated; whole grey levels come
    back, since ImageMagick hands back 8 bits.
    """
    batch, height, width, channels = images.shape
    taps = 2 * int(np.ceil(motion.radius)) + 1
    steps = torch.arange(taps, device=images.device, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (steps / motion.sigma) ** 2)
    weights: list[float] = (kernel / kernel.sum()).tolist()
    radians = torch.deg2rad(degrees.double())[:, None]  # (B, 1)
    right = torch.ceil(steps * radians.cos() - 0.5).long()  # (B, taps)
    down = torch.ceil(steps * radians.sin() - 0.5).long()
    rows = torch.arange(height, device=images.device)[:, None]
    columns = torch.arange(width, device=images.device)
    first = torch.arange(batch, device=images.device) * height  # row number of each image
    flat = images.reshape(-1, channels)
    total = torch.zeros_like(flat)
    for tap, weight in enumerate(weights):
        row = (rows + down[:, tap, None, None]).clamp_(0, height - 1) + first[:, None, None]
        column = (columns + right[:, tap, None, None]).clamp_(0, width - 1)
        total.add_(flat.index_select(0, (row * width + column).flatten()), alpha=weight)
    return total.add_(0.5).floor_().view(images.shape)


def glass_blur(images: Tensor, sets: ParameterSet, severity: int, draws: Draws) -> Tensor:
    """Blur, let every pixel take the place of one nearby, round after round, and blur again."""
    level = sets.glass_blur[severity - 1]
    batch, height, width, channels = images.shape
    soft = gaussian(to_planes(images), level.sigma).add_(1e-3).byte()  # whole grey levels
    source = torch.arange(height * width, device=images.device).expand(batch, -1)
    for turn in range(level.rounds):
        steps = draws.below(f"glass{turn}", 2 * level.reach, batch, 2, height, width)
        offsets = steps - level.reach
        source = source.gather(1, copied_from(offsets, level.reach))
    flat = soft.view(batch, channels, -1)
    moved = flat.gather(2, source[:, None].expand(-1, channels, -1)).view_as(soft)
    return to_pixels(gaussian(moved.float(), level.sigma))


def copied_from(offsets: Tensor, reach: int) -> Tensor:
    """Return which pixel each pixel ends up with, ``(B, H W)``, after one round of copying.

    The definition is sequential: from the last pixel to the first, pixel p (at least ``reach``
    from the border) takes the value that pixel p + ``offsets[b, :, p]`` has *at that moment*.
    (The published code means to swap, but both sides of its assignment are views: it copies.) A
    pixel that comes later in reading order has been replaced already, so its own source counts;
    these chains are followed in doubling steps, all pixels at once.
    """
    height, width = offsets.shape[-2:]
    inside = torch.zeros(height, width, dtype=torch.bool, device=offsets.device)
    inside[reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] = True
    shift = torch.where(inside, offsets[:, 0] * width + offsets[:, 1], 0).flatten(1)
    place = torch.arange(height * width, device=offsets.device)
    target = place + shift  # (B, H W)
    if reach == 1:  # only pixels that come earlier: nothing to follow
        return target
    done = (shift <= 0) | ~inside.flatten()[target]
    while not bool(done.all()):
        target, done = (
            torch.where(done, target, target.gather(1, target)),
            done | done.gather(1, target),
        )
    return target


@lru_cache(maxsize=16)
def _disk(level: Defocus) -> Tensor:
    """Return the softened disk ``(k, k)``, k odd, without its empty margin."""
    reach, taps = (8, 1) if level.radius <= 8 else (int(level.radius), 2)
    line = np.arange(-reach, reach + 1)
    disk = (line[:, None] ** 2 + line**2 <= level.radius**2).astype(np.float64)
    disk /= disk.sum()
    steps = np.arange(-taps, taps + 1)
    soft = np.exp(-0.5 * (steps / level.soften) ** 2)
    soft /= soft.sum()
    padded = np.pad(disk, taps, mode="reflect")
    for axis in (0, 1):
        padded = np.apply_along_axis(np.convolve, axis, padded, soft, mode="valid")
    used = np.abs(line)[(padded > 1e-12).any(axis=1)].max()
    margin = reach - used
    return torch.from_numpy(
        padded[margin : len(line) - margin, margin : len(line) - margin]
    ).float()


def _mirror(planes: Tensor, reach: int) -> Tensor:
    """Pad planes by mirroring about the border pixel, again and again if they are small."""
    while reach > 0:
        step = min(reach, min(planes.shape[-2:]) - 1)
        planes = F.pad(planes, (step,) * 4, mode="reflect")
        reach -= step
    return planes


def _fourier(padded: Tensor, kernel: Tensor) -> Tensor:
    """Correlate padded planes with a point-symmetric kernel; valid results come first."""
    shape = padded.shape[-2:]
    size = len(kernel)
    spread = torch.fft.rfft2(kernel, s=shape)
    full = torch.fft.irfft2(torch.fft.rfft2(padded) * spread, s=shape)
    return full[..., size - 1 :, size - 1 :]
