"""Tiny networks on 8x8 images that normalise where or how others do not."""

import torch
from torch import nn


class SpareNet(nn.Module):
    """Each place has a BatchNorm for either of two domains, of which one is used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, padding=1)
        self.norms1 = nn.ModuleList(nn.BatchNorm2d(6) for _ in range(3))
        self.norm2 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norms1[0](self.conv1(x)))
        return self.fc(torch.relu(self.norm2(self.conv2(x))).mean(dim=(2, 3)))


class TokenNet(nn.Module):
    """Normalises the tokens of all images as rows of one table, as LeViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.norm1 = nn.Conv2d(3, 8, 2, 2), nn.BatchNorm2d(8)
        self.mix, self.norm2 = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.patch(x))).flatten(2).transpose(1, 2)  # (B, T, 8)
        tokens = self.norm2(self.mix(x).flatten(0, 1)).view_as(x)
        return self.fc(torch.relu(tokens).mean(dim=1))


class VolumeNet(nn.Module):
    """Takes images for volumes one slice deep."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv3d(3, 8, (1, 3, 3)), nn.BatchNorm3d(8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.norm(self.conv(x[:, :, None]))).mean(dim=(2, 3, 4)))


class BatchNet(nn.Module):
    """Its second BatchNorm keeps no statistics and normalises by whatever batch it is given."""

    def __init__(self, affine: bool = True) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 8, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(8, affine=affine, track_running_stats=False)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.conv1(x)))
        return self.fc(torch.relu(self.norm2(self.conv2(x))).mean(dim=(2, 3)))


ODD_NETS = {"spare": SpareNet, "tokens": TokenNet, "volume": VolumeNet, "batch": BatchNet}


def make_odd_net(kind: str, seed: int = 0) -> nn.Module:
    """Return a network with random weights and statistics, in eval mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = ODD_NETS[kind]()
        for name, buffer in net.named_buffers():
            if "running" in name:
                buffer.uniform_(0.2, 0.6)
    return net.eval()
