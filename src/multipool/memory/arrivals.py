"""The door: check a batch, describe it, and bring what decisions need to the host in one copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.core import check_images, check_plain, check_range
from multipool.memory.checks import column
from multipool.memory.descriptors import Descriptor, feature, from_moments, on_grid
from multipool.memory.pixels import Look, extent, on_host, plain


@dataclass(frozen=True)
class Arrivals:
    """A checked batch on the host."""

    descriptors: NDArray[np.float64]  # (B, D) multiples of 2^-24; D = 0 for pools
    uncertainty: NDArray[np.float64]  # (B,) nats
    labels: NDArray[np.int64]  # (B,) -1: unknown


@dataclass(frozen=True)
class Batch:
    """The four arguments of ``add``, with shapes and dtypes already checked."""

    images: Tensor
    uncertainty: Tensor | None
    labels: Tensor | None
    features: Tensor | None


def check_batch(
    images: Tensor,
    uncertainty: Tensor | None,
    labels: Tensor | None,
    features: Tensor | None,
) -> Batch:
    """Check everything that needs no values; those are on the device still."""
    check_images(images, finite=False)
    size = len(images)
    if uncertainty is not None:
        column("uncertainty", uncertainty, size, integer=False)
    if labels is not None:
        column("labels", labels, size, integer=True)
    if features is not None:
        if not isinstance(features, Tensor) or not features.is_floating_point():
            kind = features.dtype if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(f"features must be a float torch.Tensor, got {kind}")
        check_plain("features", features)
        if features.ndim != 2 or len(features) != size or features.shape[1] == 0:
            raise ValueError(f"features must have shape ({size}, D), got {tuple(features.shape)}")
    return Batch(images, uncertainty, labels, features)


def check_width(features: Tensor | None, width: int) -> None:
    """Raise ``ValueError`` for features of another width than those before, 0: the first."""
    if features is not None and width not in (0, features.shape[1]):
        raise ValueError(
            f"features must have {width} columns as those before, got {features.shape[1]}"
        )


def arrive(
    batch: Batch,
    describe: Descriptor | None,
    num_classes: int,
    *,
    checked: bool = False,
    seen: Look | None = None,
) -> Arrivals:
    """Return the batch's descriptors, uncertainty and labels; one device-to-host copy.

    Values are checked here, from that same copy: pixels in [0, 1], finite uncertainty and
    features, labels from -1 to ``num_classes`` - 1. ``describe=None`` computes no descriptor;
    ``checked`` pixels are known to lie in [0, 1], and so are those that were ``seen``, whose
    moments stand in for ``describe``.
    """
    images, size = batch.images.detach(), len(batch.images)
    device = images.device
    described = (
        _describe(batch, images, describe)
        if seen is None
        else from_moments(seen.sums, seen.squares, images.shape)
    )
    # 8-bit pixels cannot leave the range, so they are not read.
    bounds = () if checked or seen is not None or images.dtype == torch.uint8 else _bounds(images)
    doubt, labels = batch.uncertainty, batch.labels
    if _is_here(images, doubt, labels):
        if bounds:
            check_range(*bounds[0].tolist())
        values = None if doubt is None else plain(doubt).astype(np.float64)
        marks = None if labels is None else plain(labels).copy()
        return _checked(described.cpu().numpy(), values, marks, num_classes)
    given = [part.detach() for part in (doubt, labels) if part is not None]
    # All becomes float64 on the way; on an accelerator each call of its own would cost more. What
    # a decoder says is on the host already.
    here = bool(given) and all(part.device.type == "cpu" for part in given)
    there = () if here else (part.to(device) for part in given)
    parts = (described.flatten(), *bounds, *there)
    copied = (parts[0] if len(parts) == 1 else torch.cat(parts)).cpu().numpy()
    packed = np.concatenate((copied, *map(plain, given))) if here else copied

    width = described.shape[1]
    vectors, rest = packed[: size * width].reshape(size, width), packed[size * width :]
    if bounds:
        check_range(float(rest[0]), float(rest[1]))
        rest = rest[2:]
    values = None if doubt is None else rest[:size]
    marks = None if labels is None else rest[len(rest) - size :].astype(np.int64)
    return _checked(vectors, values, marks, num_classes)


def _is_here(images: Tensor, doubt: Tensor | None, labels: Tensor | None) -> bool:
    """Tell whether everything is on the host, of types that need no packing to be read."""
    told = doubt is None or (doubt.device.type == "cpu" and doubt.is_floating_point())
    named = labels is None or (labels.device.type == "cpu" and labels.dtype == torch.int64)
    return on_host(images) and told and named


def _checked(
    vectors: NDArray[np.float64],
    values: NDArray[np.float64] | None,
    marks: NDArray[np.int64] | None,
    num_classes: int,
) -> Arrivals:
    """Return arrivals of vectors ``(B, D)``, uncertainty and labels ``(B,)``, if all are sound."""
    vectors = on_grid(vectors)
    if not np.isfinite(vectors).all():
        raise ValueError("features must be finite, got NaN or infinity; drop those samples")
    values = np.zeros(len(vectors)) if values is None else values
    if not np.isfinite(values).all():
        raise ValueError("uncertainty must be finite, got NaN or infinity; drop those samples")
    marks = np.full(len(vectors), -1, dtype=np.int64) if marks is None else marks
    low, high = marks.min(), marks.max()
    if low < -1 or high >= num_classes:
        raise ValueError(f"labels must be -1 (unknown) to {num_classes - 1}, got {low} to {high}")
    return Arrivals(vectors, values, marks)


def _describe(batch: Batch, images: Tensor, describe: Descriptor | None) -> Tensor:
    if describe is None:
        return torch.empty(len(images), 0, dtype=torch.float64, device=images.device)
    if describe is feature:
        if batch.features is None:
            raise ValueError("descriptor 'feature' needs features=, the model's features (B, D)")
        return describe(batch.features.detach().to(images.device))
    return describe(images)


def _bounds(images: Tensor) -> list[Tensor]:
    """Return the smallest and the largest pixel, one number each, where the images are."""
    if on_host(images):
        return [torch.from_numpy(extent(plain(images)))]
    return [bound.view(1) for bound in torch.aminmax(images)]
