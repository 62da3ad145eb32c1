"""What contracts are checked with: a tiny network, seeded images, labelled source batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 5


class TinyNet(nn.Module):
    """Three convolutions with batch norm on 8x8 images, then a linear layer."""

    def __init__(self, num_classes: int = CLASSES, channels: int = 3) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv3, self.bn3 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, C, 8, 8)``."""
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        x = torch.relu(self.bn3(self.conv3(x)))
        return self.fc(x.mean(dim=(2, 3)))


def tiny_net(num_classes: int = CLASSES, seed: int = 0, channels: int = 3) -> TinyNet:
    """Return a network with random but plausible weights and statistics, in eval mode.

    >>> tiny_net()(random_images(2)).shape
    torch.Size([2, 5])
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = TinyNet(num_classes, channels)
        for convolution in (net.conv1, net.conv2, net.conv3):
            nn.init.kaiming_normal_(convolution.weight)
        for layer in (net.bn1, net.bn2, net.bn3):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.3, 0.3)
            assert layer.running_mean is not None  # BatchNorm2d tracks them unless told not to
            assert layer.running_var is not None
            layer.running_mean.uniform_(-0.3, 0.3)
            layer.running_var.uniform_(0.1, 0.4)
        nn.init.normal_(net.fc.weight, std=2.0)
        # Centred logits: every class is predicted now and then.
        with torch.no_grad():
            net.eval()
            colours = torch.rand(200, channels, 1, 1) * 0.6 + torch.rand(200, channels, 8, 8) * 0.4
            net.fc.bias.sub_(net(colours).mean(dim=0))
    return net


def random_images(count: int, seed: int = 0, channels: int = 3, side: int = 8) -> Tensor:
    """Return images ``(count, channels, side, side)`` of 8-bit values in [0, 1], by seed."""
    generator = torch.Generator().manual_seed(seed)
    # A colour of its own for each image, so that predictions differ between them.
    colour = torch.randint(0, 156, (count, channels, 1, 1), generator=generator)
    grain = torch.randint(0, 100, (count, channels, side, side), generator=generator)
    return (colour + grain).float() / 255


def source_batches() -> list[tuple[Tensor, Tensor]]:
    """Return labelled source data for the methods that need them: three batches of 32."""
    images, labels = random_images(96, seed=77), torch.arange(96) % CLASSES
    return [(images[i : i + 32], labels[i : i + 32]) for i in (0, 32, 64)]
