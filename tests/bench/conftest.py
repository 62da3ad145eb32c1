"""A dataset and a model so small that a whole run takes a moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from multipool.bench.run import loader as loading
from multipool.bench.run.loader import Loader
from multipool.data.protocol import SourceImages

CLASSES, SIDE = 4, 8
DOMAINS = ("dark", "plain", "bright")


@dataclass(frozen=True)
class TinyData:
    """Four colours in three brightnesses, with noise; the class is the brightest quarter."""

    per_domain: int = 90
    name: str = "shapes-c"
    num_classes: int = CLASSES
    size: int = SIDE
    domains: tuple[str, ...] = DOMAINS
    classes: None = None
    severities: tuple[int, ...] = ()
    lazy: bool = False

    def labels(self, domain):
        return np.arange(self.per_domain, dtype=np.int64) % CLASSES

    def images(self, domain, rows, severity=None):
        shift = (DOMAINS.index(domain) - 1) * 60
        return torch.stack([self._draw(int(row), shift) for row in rows])

    def source(self, split="train"):
        labels = self.labels("plain")
        return SourceImages(labels, lambda rows: self.images("plain", rows), split)

    def _draw(self, row, shift):
        rng = np.random.default_rng(row)
        image = rng.normal(100 + shift, 90, (3, SIDE, SIDE))
        half = SIDE // 2
        top, left = divmod(row % CLASSES, 2)
        image[:, top * half : (top + 1) * half, left * half : (left + 1) * half] += 25
        return torch.from_numpy(image.clip(0, 255).astype(np.uint8))


def tiny_model():
    """Return a batch-norm network that finds the brightest quarter, not always."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, CLASSES),
    )
    with torch.no_grad():
        model[0].weight.fill_(1 / 27)
        model[5].weight.copy_(torch.eye(4).repeat(1, 6) * 4)
        model[5].bias.zero_()
    return model.eval()


class TinyLoader(Loader):
    """Hands out the tiny dataset and model, whatever the experiment names."""

    per_domain = 90

    def dataset(self, experiment):
        return TinyData(self.per_domain)

    def model(self, experiment, num_classes, device):
        return tiny_model().to(device)


@pytest.fixture(scope="session")
def loader_class():
    return TinyLoader


@pytest.fixture
def loader(monkeypatch):
    monkeypatch.setattr(loading, "weights_digest", tiny_digest)
    return TinyLoader()


def tiny_digest(name, architecture=None):
    """Stand in for ``weights_digest``: whatever is named, the tiny model is loaded."""
    return loading.model_digest(tiny_model())


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))
