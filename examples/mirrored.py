"""CIFAR models that answer by the mean of an image and of its mirror image.

So every method can be given what `multipool` does by itself where it is in doubt, for twice the
work: docs/compare.md, "A second look for all". The weights lie where WEIGHTS says:

    WEIGHTS=DIR multipool run --dataset cifar10-c --model examples/mirrored.py:cifar10 --method bn
"""

import os
from pathlib import Path

from torch import Tensor, nn

from multipool import models
from multipool.ops.mirror import mirrored


class Mirrored(nn.Module):
    """Classifies the mean of the features of an image and of its view.

    The last layer is linear, so that is the mean of both answers; and methods that read features
    find them.

    Args:
        model: a classifier of images (B, C, H, W) that ends with a linear layer.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.head = models.classifier(model)
        name = next(name for name, layer in model.named_modules() if layer is self.head)
        model.set_submodule(name, nn.Identity())
        self.body = model

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (B, L)."""
        answer: Tensor = self.head((self.body(images) + self.body(mirrored(images))) / 2)
        return answer


def cifar10() -> Mirrored:
    """Return the WRN-16-2 of CIFAR-10."""
    return _load("cifar10_wrn16_2.safetensors")


def cifar100() -> Mirrored:
    """Return the WRN-16-2 of CIFAR-100."""
    return _load("cifar100_wrn16_2.safetensors")


def _load(name: str) -> Mirrored:
    return Mirrored(models.load(Path(os.environ["WEIGHTS"]) / name))
