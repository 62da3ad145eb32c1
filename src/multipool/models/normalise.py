"""The first step of every model: images in [0, 1] to the range it was trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

HALF = (0.5, 0.5, 0.5)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ZERO, ONE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


class Normalise(nn.Module):
    """Subtract ``mean`` and divide by ``std``, one number per channel each.

    Both are buffers that move with the model but stay out of its ``state_dict``, whose names are
    those of the published checkpoints; a file keeps them in its metadata instead.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float] = ZERO, std: Sequence[float] = ONE) -> None:
        super().__init__()
        if len(mean) != 3 or len(std) != 3:
            raise ValueError(
                f"mean and std must have 3 numbers each, got {len(mean)} and {len(std)}"
            )
        if not all(value > 0 for value in std):
            raise ValueError(f"std must be positive, got {tuple(std)}")
        for name, values in (("mean", mean), ("std", std)):
            # The device is said: inside a meta-device context these must still be numbers.
            buffer = torch.tensor(list(values), dtype=torch.float32, device="cpu")
            self.register_buffer(name, buffer.view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return images ``(B, 3, H, W)`` in [0, 1] as the model's own input, same shape."""
        return (images - self.mean) / self.std


class Normalised(nn.Module):
    """Another package's model behind our first step, so that it takes images in [0, 1]."""

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std)
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, H, W)`` in [0, 1]."""
        return self.model(self.normalise(images))
