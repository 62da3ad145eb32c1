"""Training on a GPU: the recorded step learns what the plain one does, and a run can go on."""

import tempfile
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn

from multipool.bench.train.train import TrainConfig, error_percent, train
from multipool.core import ImageSet
from multipool.engine import graphs


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.GroupNorm(2, 16), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2),
        )  # fmt: skip


def light_and_dark(count: int = 512) -> ImageSet:
    labels = torch.arange(count) % 2
    grey = torch.where(labels == 0, 90, 160).view(-1, 1, 1, 1)
    grain = torch.randint(-60, 60, (count, 3, 8, 8), generator=torch.Generator().manual_seed(1))
    return ImageSet((grey + grain).to(torch.uint8), labels)


def check_training(optimizer: str, device: torch.device) -> str:
    shown, losses = light_and_dark(), []
    config = TrainConfig(4, 32, 0.01, crop=1, optimizer=optimizer, mix=0.5, smoothing=0.1)
    for warm_up in (graphs._WARM_UP, 10**9):  # the second one never records
        told: list[torch.Tensor] = []
        with patch.object(graphs, "_WARM_UP", warm_up):
            train(network(), shown, config, device=device, report=lambda now: told.append(now.loss))  # noqa: B023
        losses.append(torch.stack(told).cpu())
    gap = float((losses[0] - losses[1]).abs().max())
    assert gap < 0.02, f"the losses differ by up to {gap:.3f}"
    with tempfile.TemporaryDirectory() as folder:
        path, half = Path(folder) / "checkpoint", config.epochs * 8
        with suppress(StopIteration):
            train(network(), shown, config, device=device, checkpoint=path, report=_end_after(half))
        resumed = train(network(), shown, config, device=device, checkpoint=path, resume=True)
    wrong = error_percent(resumed, shown)
    assert wrong < 5, f"{wrong} % wrong"
    return f"losses within {gap:.1e}, {wrong:.1f} % wrong"


def _end_after(steps: int):
    def report(now):
        if (now.epoch - 1) * now.steps + now.step > steps:
            raise StopIteration

    return report
