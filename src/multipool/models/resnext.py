"""ResNeXt-29 (Xie et al., CVPR 2017) for 32 px images, with AugMix's parameter names."""

from __future__ import annotations

from torch import Tensor, nn

from multipool.models.normalise import Normalise
from multipool.ops import activated


class ResNeXt29(nn.Module):
    """Three stages of three bottlenecks, each with ``groups`` paths of ``width`` channels."""

    def __init__(self, num_classes: int, groups: int = 4, width: int = 32) -> None:
        super().__init__()
        self.normalise = Normalise()
        self.conv_1_3x3 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn_1 = nn.BatchNorm2d(64)
        self.stage_1 = _stage(64, 256, groups, groups * width, stride=1)
        self.stage_2 = _stage(256, 512, groups, 2 * groups * width, stride=2)
        self.stage_3 = _stage(512, 1024, groups, 4 * groups * width, stride=2)
        self.classifier = nn.Linear(1024, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, H, W)`` in [0, 1]."""
        x = activated(self.bn_1, self.conv_1_3x3(self.normalise(images)))
        x = self.stage_3(self.stage_2(self.stage_1(x)))
        return self.classifier(x.mean(dim=(2, 3)))  # (B, 1024) features


def _stage(width_in: int, width: int, groups: int, inner: int, stride: int) -> nn.Sequential:
    """Return three bottlenecks; the first changes the width and the stride."""
    first = _Bottleneck(width_in, width, groups, inner, stride)
    return nn.Sequential(first, *(_Bottleneck(width, width, groups, inner, 1) for _ in range(2)))


class _Bottleneck(nn.Module):
    """Reduce, convolve in groups, expand, add the shortcut."""

    def __init__(self, width_in: int, width: int, groups: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv_reduce = nn.Conv2d(width_in, inner, 1, bias=False)
        self.bn_reduce = nn.BatchNorm2d(inner)
        self.conv_conv = nn.Conv2d(
            inner, inner, 3, stride=stride, padding=1, groups=groups, bias=False
        )
        self.bn = nn.BatchNorm2d(inner)
        self.conv_expand = nn.Conv2d(inner, width, 1, bias=False)
        self.bn_expand = nn.BatchNorm2d(width)
        self.downsample = (
            None
            if width_in == width
            else nn.Sequential(
                nn.Conv2d(width_in, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = activated(self.bn_reduce, self.conv_reduce(x))
        out = activated(self.bn, self.conv_conv(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        return activated(self.bn_expand, self.conv_expand(out), shortcut)
