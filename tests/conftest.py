"""What all tests share: a tiny network, seeded images, and where real data may lie."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from torch import nn

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


class TinyNet(nn.Module):
    """Three convolutions with batch norm on 8x8 images, then a linear layer."""

    def __init__(self, num_classes: int = 5, channels: int = 3) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv3, self.bn3 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        x = torch.relu(self.bn3(self.conv3(x)))
        return self.fc(x.mean(dim=(2, 3)))


def make_tiny_net(num_classes: int = 5, seed: int = 0, channels: int = 3) -> TinyNet:
    """Return a network with random but plausible weights and statistics, in eval mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = TinyNet(num_classes, channels)
        for layer in (net.conv1, net.conv2, net.conv3):
            nn.init.kaiming_normal_(layer.weight)
        for layer in (net.bn1, net.bn2, net.bn3):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.3, 0.3)
            layer.running_mean.uniform_(-0.3, 0.3)
            layer.running_var.uniform_(0.1, 0.4)
        nn.init.normal_(net.fc.weight, std=2.0)
        # Centred logits: every class is predicted now and then.
        with torch.no_grad():
            net.eval()
            colours = torch.rand(200, channels, 1, 1) * 0.6 + torch.rand(200, channels, 8, 8) * 0.4
            net.fc.bias.sub_(net(colours).mean(dim=0))
    return net


@pytest.fixture
def tiny_net():
    return make_tiny_net()


@pytest.fixture
def make_net():
    return make_tiny_net


@pytest.fixture
def make_images():
    """Return images (B, 3, 8, 8) of 8-bit values in [0, 1], by seed."""

    def make(count: int, seed: int = 0, channels: int = 3, side: int = 8) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        # A colour of its own for each image, so that predictions differ between them.
        colour = torch.randint(0, 156, (count, channels, 1, 1), generator=generator)
        grain = torch.randint(0, 100, (count, channels, side, side), generator=generator)
        return (colour + grain).float() / 255

    return make


@pytest.fixture(scope="session")
def shared():
    """Return the folder with real data and weights, or skip."""
    default = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("MULTIPOOL_SHARED", default))
    if not (folder / "data").is_dir():
        pytest.skip("no real data beside the repository (set MULTIPOOL_SHARED to its folder)")
    return folder
