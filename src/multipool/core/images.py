"""Sets of images, what a bank hands back, and the checks that every image passes at the door."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_OVERSHOOT = 0.25  # of bicubic resizing, at sharp edges
# Float types that arithmetic is made for; torch only stores the smaller ones.
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class ImageSet:
    """Labelled images of one domain.

    ``images`` is uint8 ``(B, C, H, W)``, ``labels`` int64 ``(B,)``; they have the same length.
    """

    images: Tensor
    labels: Tensor
    domain: str = ""

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise ValueError(
                f"images and labels must have the same length, "
                f"got {len(self.images)} and {len(self.labels)}"
            )

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: Tensor) -> ImageSet:
        """Return the rows named by the int64 index ``rows``."""
        return ImageSet(self.images[rows], self.labels[rows], self.domain)


def check_images(images: object, channels: int | None = None, *, finite: bool = True) -> Tensor:
    """Return ``images`` if it is a batch of images as every door accepts it, else ``ValueError``.

    Accepted: float ``(B, C, H, W)`` in [0, 1] without NaN, or uint8. ``finite=False`` leaves the
    value check to the caller, who has the values on the host anyway.
    """
    if not isinstance(images, Tensor):
        raise ValueError(
            f"images must be a torch.Tensor, got {type(images).__name__}; make one with "
            "torch.as_tensor"
        )
    check_plain("images", images)
    if images.ndim != 4:
        hint = "; pass images[None] for a batch of one" if images.ndim == 3 else ""
        raise ValueError(f"images must have shape (B, C, H, W), got {tuple(images.shape)}{hint}")
    if len(images) == 0:
        raise ValueError("images must hold at least one image, got an empty batch")
    if 0 in images.shape:
        raise ValueError(f"images must have at least one pixel, got shape {tuple(images.shape)}")
    if channels is not None and images.shape[1] != channels:
        raise ValueError(f"images must have {channels} channels, got {images.shape[1]}")
    if images.dtype not in (torch.uint8, *_FLOATS):
        raise ValueError(f"images must be float in [0, 1] or uint8, got {images.dtype}")
    if finite and images.is_floating_point():
        low, high = (float(v) for v in images.detach().aminmax())
        check_range(low, high)
    return images


def check_as_before(images: Tensor, shape: tuple[int, ...] | None) -> None:
    """Raise ``ValueError`` unless images ``(B, C, H, W)`` have the shape (C, H, W), None: any."""
    if shape is not None and tuple(images.shape[1:]) != shape:
        raise ValueError(
            f"images must have shape (B, {', '.join(map(str, shape))}) as those before, "
            f"got {tuple(images.shape)}; give all images one shape"
        )


def check_plain(name: str, tensor: Tensor) -> None:
    """Raise ``ValueError`` for a tensor without values, or one that does not hold all of them."""
    if tensor.is_meta or tensor.layout != torch.strided:
        kind = "one on the meta device" if tensor.is_meta else f"one of layout {tensor.layout}"
        raise ValueError(f"{name} must be a plain tensor with values, got {kind}")


def check_range(low: float, high: float) -> None:
    """Raise ``ValueError`` unless ``[low, high]`` lies in [0, 1]; NaN counts as outside.

    >>> check_range(0.0, 255.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: float images must lie in [0, 1], got values from 0 to 255; ...
    """
    if not (low >= 0.0 and high <= 1.0):
        if low != low or high != high:
            raise ValueError("float images must lie in [0, 1], got NaN; mask or drop those images")
        raise ValueError(
            f"float images must lie in [0, 1], got values from {low:g} to {high:g}; "
            f"{_advice(low, high)}"
        )


def _advice(low: float, high: float) -> str:
    """Say what to do about values outside [0, 1], from what they look like.

    >>> _advice(-2.1, 2.6)
    'they look normalised, but the model should normalise: models.wrap(model, mean, std)'
    """
    if math.isinf(low) or math.isinf(high):
        return "mask or drop those images"
    if low >= -_OVERSHOOT and high <= 1 + _OVERSHOOT:
        return "clamp what resizing left outside: images.clamp(0, 1)"
    if low < 0:
        return "they look normalised, but the model should normalise: models.wrap(model, mean, std)"
    return "divide by 255 or pass uint8"


def as_float(images: Tensor) -> Tensor:
    """Return images as float in [0, 1]: uint8 is divided by 255, float stays as it is."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images


@dataclass(frozen=True)
class Retrieved:
    """Samples of a bank, one row each; images on the bank's device, the rest on the host.

    ``ages`` count samples of the stream: the newest is 1. Losses divide them by the capacity.
    """

    images: Tensor  # (M, C, H, W) float in [0, 1]
    ages: Tensor  # (M,) int64
    uncertainty: Tensor  # (M,) float64, nats
    labels: Tensor  # (M,) int64, -1: unknown
    clusters: Tensor  # (M,) int64, position of the cluster in the creation sequence; 0 for pools

    def __len__(self) -> int:
        return len(self.images)
