"""Go on from saved adapters in a process of their own; ``python resumed.py FOLDER``.

What each ``NAME.safetensors`` predicts for the batches to come goes to ``NAME.out``.
"""

import sys
from pathlib import Path

import torch
from torch import nn

import multipool
from multipool.memory import build


def model() -> nn.Module:
    """Return an untrained classifier of 5 classes; equal in every process."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
            nn.Conv2d(6, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
        )  # fmt: skip
    return net.eval()


def images(seed: int, count: int = 50) -> torch.Tensor:
    """Return images (B, 3, 8, 8) of 8-bit values, a colour each."""
    draw = torch.Generator().manual_seed(seed)
    colour = torch.randint(0, 156, (count, 3, 1, 1), generator=draw)
    return (colour + torch.randint(0, 100, (count, 3, 8, 8), generator=draw)).float() / 255


def source() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(images(77, 32), torch.arange(32) % 5), (images(78, 32), torch.arange(32) % 5)]


def following(adapter: multipool.methods.Adapter) -> torch.Tensor:
    """Return the predictions for the four batches to come."""
    return torch.cat([adapter(images(seed)) for seed in range(3, 7)])


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*.safetensors")):
        own = build("fifo", 5, capacity=20) if path.stem.endswith("own") else None
        adapter = multipool.load(path, model(), source=source(), memory=own)
        torch.save(following(adapter), path.with_suffix(".out"))
