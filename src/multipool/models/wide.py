"""Wide residual networks (Zagoruyko & Komodakis, BMVC 2016) for 32 px images.

Parameter names are RobustBench's, so its checkpoints load. With ``groups`` the layers that
normalise are GroupNorm (Wu & He, ECCV 2018) under the same names.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multipool.models.normalise import Normalise
from multipool.ops import activated


class WideResNet(nn.Module):
    """Three groups of pre-activation blocks, ``widen`` times as wide as a ResNet's."""

    def __init__(self, num_classes: int, depth: int, widen: int, groups: int | None = None) -> None:
        super().__init__()
        if (depth - 4) % 6:
            raise ValueError(f"depth must be 6 n + 4, got {depth}")
        blocks = (depth - 4) // 6
        widths = (16, 16 * widen, 32 * widen, 64 * widen)
        self.normalise = Normalise()
        self.conv1 = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.block1 = _Group(blocks, widths[0], widths[1], 1, groups)
        self.block2 = _Group(blocks, widths[1], widths[2], 2, groups)
        self.block3 = _Group(blocks, widths[2], widths[3], 2, groups)
        self.bn1 = _norm(widths[3], groups)
        self.fc = nn.Linear(widths[3], num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, H, W)`` in [0, 1]."""
        x = self.conv1(self.normalise(images))
        x = self.block3(self.block2(self.block1(x)))
        x = activated(self.bn1, x)
        return self.fc(x.mean(dim=(2, 3)))  # (B, 64 * widen) features


class _Group(nn.Module):
    """Blocks at one resolution; the first changes the width and the stride."""

    def __init__(
        self, blocks: int, width_in: int, width: int, stride: int, groups: int | None
    ) -> None:
        super().__init__()
        first = _Block(width_in, width, stride, groups)
        rest = (_Block(width, width, 1, groups) for _ in range(blocks - 1))
        self.layer = nn.Sequential(first, *rest)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activations after all blocks."""
        return self.layer(x)


class _Block(nn.Module):
    """Two 3 x 3 convolutions, each after normalisation and ReLU, around a shortcut."""

    def __init__(self, width_in: int, width: int, stride: int, groups: int | None) -> None:
        super().__init__()
        self.bn1 = _norm(width_in, groups)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = _norm(width, groups)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.convShortcut = (  # RobustBench's spelling
            None
            if width_in == width and stride == 1
            else nn.Conv2d(width_in, width, 1, stride=stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output; a projecting shortcut starts from the activated input."""
        active = activated(self.bn1, x)
        out = self.conv2(activated(self.bn2, self.conv1(active)))
        return torch.add(x if self.convShortcut is None else self.convShortcut(active), out)


def _norm(width: int, groups: int | None) -> nn.Module:
    """Return BatchNorm, or GroupNorm with so many groups."""
    return nn.BatchNorm2d(width) if groups is None else nn.GroupNorm(groups, width)
