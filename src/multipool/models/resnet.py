"""Residual networks (He et al., CVPR 2016) with torchvision's parameter names.

``ResNet`` has two blocks to choose from and two stems: the usual one (7 x 7, stride 2, pooled)
for 224 px and a 3 x 3 one for 64 px. ``DomainNetResNet50`` adds AdaContrast's bottleneck and head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from multipool.models.normalise import Normalise
from multipool.ops import activated


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(width_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = activated(self.bn1, self.conv1(x))
        shortcut = x if self.downsample is None else self.downsample(x)
        return activated(self.bn2, self.conv2(out), shortcut)


class Bottleneck(nn.Module):
    """Reduce, convolve, expand, and a shortcut; the stride is at the 3 x 3 convolution."""

    expansion = 4

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        wide = width * self.expansion
        self.conv1 = nn.Conv2d(width_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, wide, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(wide)
        self.downsample = _shortcut(width_in, wide, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = activated(self.bn1, self.conv1(x))
        out = activated(self.bn2, self.conv2(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        return activated(self.bn3, self.conv3(out), shortcut)


def _shortcut(width_in: int, width: int, stride: int) -> nn.Sequential | None:
    """Return a projection where the shape changes, else nothing."""
    if width_in == width and stride == 1:
        return None
    conv = nn.Conv2d(width_in, width, 1, stride=stride, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width))


class ResNet(nn.Module):
    """Four stages of blocks; ``small`` takes the 3 x 3 stem without pooling."""

    def __init__(
        self,
        num_classes: int,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        small: bool = False,
    ) -> None:
        super().__init__()
        self.normalise = Normalise()
        size, stride, padding = (3, 1, 1) if small else (7, 2, 3)
        self.conv1 = nn.Conv2d(3, 64, size, stride=stride, padding=padding, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        width = 64 * block.expansion
        self.layer1 = _stage(block, 64, 64, depths[0], stride=1)
        self.layer2 = _stage(block, width, 128, depths[1], stride=2)
        self.layer3 = _stage(block, 2 * width, 256, depths[2], stride=2)
        self.layer4 = _stage(block, 4 * width, 512, depths[3], stride=2)
        self.fc = nn.Linear(8 * width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, H, W)`` in [0, 1]."""
        x = self.pool(activated(self.bn1, self.conv1(self.normalise(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))  # (B, 512 * expansion) features


def _stage(
    block: type[BasicBlock] | type[Bottleneck], width_in: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    """Return ``depth`` blocks; the first changes the width and the stride."""
    wide = width * block.expansion
    first = block(width_in, width, stride)
    return nn.Sequential(first, *(block(wide, width, 1) for _ in range(depth - 1)))


class WeightNormLinear(nn.Linear):
    """A linear layer whose weight is a direction ``v`` and a length ``g`` per class.

    The names ``weight_g`` and ``weight_v`` are those of torch's old ``weight_norm``, under which
    the checkpoints were saved; unlike that one, this layer can be copied after a forward pass.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        nn.Module.__init__(self)  # not Linear's: it would make the weight a parameter
        self.in_features, self.out_features = in_features, out_features
        self.weight_g = nn.Parameter(torch.empty(out_features, 1))
        self.weight_v = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features))

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weight ``(L, D)``, made from its direction and length."""
        return self.weight_v * (self.weight_g / self.weight_v.norm(dim=1, keepdim=True))


class DomainNetResNet50(nn.Module):
    """ResNet-50, a 256-d bottleneck with batch normalisation, and a weight-normalised head.

    Names and layout are those of AdaContrast's released DomainNet-126 checkpoints.
    """

    def __init__(self, num_classes: int, width: int = 256) -> None:
        super().__init__()
        backbone = ResNet(width, Bottleneck, (3, 4, 6, 3))
        backbone.normalise = nn.Identity()  # type: ignore[assignment]  # done once, below
        self.normalise = Normalise()
        self.encoder = nn.Sequential(backbone, nn.BatchNorm1d(width))
        self.fc = WeightNormLinear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, H, W)`` in [0, 1]."""
        return self.fc(self.encoder(self.normalise(images)))  # (B, 256) features
