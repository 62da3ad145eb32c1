"""The first step of every model: images in [0, 1] to the range it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import torch
from torch import Tensor, nn

HALF = (0.5, 0.5, 0.5)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ZERO, ONE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
_LARGEST_MEAN = 3.0  # of pixels in [0, 1] it is below 1; of pixels to 255 it is some 120


class Normalise(nn.Module):
    """Subtract ``mean`` and divide by ``std``, one number per channel each.

    Both are buffers that move with the model but stay out of its ``state_dict``, whose names are
    those of the published checkpoints; a file keeps them in its metadata instead.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float] = ZERO, std: Sequence[float] = ONE) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            try:
                finite = all(isfinite(value) for value in values)
            except TypeError:
                finite = False
            if not finite:
                raise ValueError(f"{name} must be 3 finite numbers, got {values!r}")
        if len(mean) != 3 or len(std) != 3:
            raise ValueError(
                f"mean and std must have 3 numbers each, got {len(mean)} and {len(std)}"
            )
        if not all(value > 0 for value in std):
            raise ValueError(f"std must be positive, got {tuple(std)}")
        if max(map(abs, mean)) > _LARGEST_MEAN:
            raise ValueError(
                f"mean must be that of pixels in [0, 1], got {tuple(mean)}; divide mean and std "
                "by 255"
            )
        for name, values in (("mean", mean), ("std", std)):
            # The device is said: inside a meta-device context these must still be numbers.
            buffer = torch.tensor(list(values), dtype=torch.float32, device="cpu")
            self.register_buffer(name, buffer.view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return images ``(B, 3, H, W)`` in [0, 1] as the model's own input, same shape."""
        return (images - self.mean) / self.std


class Normalised(nn.Module):
    """Any model behind our first step, so that it takes images in [0, 1].

    Args:
        model: from normalised images (B, C, H, W) to logits (B, L).
        mean: of the images that it was trained on, one number a channel.
        std: likewise.
        size: the side in pixels that it was made for, where that is known.
        origin: who named the numbers, for :meth:`describe`.
    """

    def __init__(
        self,
        model: nn.Module,
        mean: Sequence[float],
        std: Sequence[float],
        size: int | None = None,
        origin: str = "as given",
    ) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std)
        self.model = model
        self.size, self.origin = size, origin

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, H, W)`` in [0, 1]."""
        out = self.model(self.normalise(images))
        return getattr(out, "logits", out)  # Hugging Face's models give them with other things

    def describe(self) -> str:
        """Return mean, std and size in words.

        >>> model = Normalised(nn.Identity(), HALF, HALF, 224, "timm's configuration")
        >>> model.describe()
        "mean 0.5 0.5 0.5, std 0.5 0.5 0.5, 224 x 224 pixels (timm's configuration)"
        """
        mean, std = (
            " ".join(f"{value:.4g}" for value in numbers.flatten().tolist())
            for numbers in (self.normalise.mean, self.normalise.std)
        )
        size = "" if self.size is None else f", {self.size} x {self.size} pixels"
        return f"mean {mean}, std {std}{size} ({self.origin})"


def wrap(
    model: nn.Module, mean: Sequence[float], std: Sequence[float], size: int | None = None
) -> Normalised:
    """Return a model that takes images in [0, 1]: the given one with its normalisation inside.

    Args:
        model: any module from normalised images (B, C, H, W) to logits (B, L).
        mean: of the images in [0, 1] that it was trained on, one number a channel.
        std: likewise.
        size: the side of those images in pixels, if it matters.

    >>> model = wrap(nn.Identity(), IMAGENET_MEAN, IMAGENET_STD)
    >>> model(torch.full((1, 3, 2, 2), 0.485))[0, 0, 0]
    tensor([0., 0.])
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"wrap takes a torch.nn.Module, got {type(model).__name__}")
    if isinstance(model, Normalised):
        raise ValueError("the model has its normalisation inside already; pass model.model to wrap")
    return Normalised(model, mean, std, size)
