"""Source data for the methods that need it: images, or statistics kept from an earlier run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import nn

from multipool.bench.run.experiment import Experiment
from multipool.data import Dataset, SourceImages
from multipool.data.places import cache_folder
from multipool.engine import statistics
from multipool.engine.statistics import SourceStatistics
from multipool.ops import Network

# These methods start from per-class feature statistics; the others want the images themselves.
FROM_STATISTICS = ("petta", "neo")
# These learn from the labels of their source images, so they never get those of the stream.
READ_LABELS = ("rmt", "ecotta")


def source_for(
    experiment: Experiment, dataset: Dataset, model: nn.Module, digest: str, notes: list[str]
) -> object:
    """Return what ``adapt`` takes as ``source``; adds to ``notes`` which images those are."""
    images = dataset.source(experiment.source_split())
    if experiment.method in READ_LABELS and images.split != "train":
        raise ValueError(
            f"{experiment.method} learns from the labels of its source images, so they must be "
            f"training images, got the {images.split} split; leave --source out or say train"
        )
    notes.append(f"{experiment.method}: {images.note}")
    if experiment.method not in FROM_STATISTICS:
        return images
    path = statistics_path(experiment, images, digest, next(model.parameters()).device)
    if path.is_file():
        try:
            return statistics.read(path)
        except ValueError:
            path.unlink(missing_ok=True)  # a damaged cache file is only worth making again
    found = make_statistics(model, images, dataset.num_classes)
    statistics.write(path, found)
    # Read back, so that the first run and the later ones start from the very same numbers.
    return statistics.read(path)


def make_statistics(model: nn.Module, images: SourceImages, num_classes: int) -> SourceStatistics:
    """Return the statistics of clean images under the source model."""
    return statistics.gather(Network(model), images, num_classes)


def statistics_path(
    experiment: Experiment, images: SourceImages, digest: str, device: torch.device
) -> Path:
    """Return where the statistics of these images under these weights are kept.

    The kind of device is part of the key: sums differ in the last bits, and a result must not
    depend on where an earlier run was made.
    """
    folder = "" if experiment.data_dir is None else str(Path(experiment.data_dir).resolve())
    facts = (experiment.dataset, folder, experiment.source_split(), digest, device.type)
    key = hashlib.sha256("\n".join(facts).encode())
    key.update(images.labels.tobytes())
    name = f"{experiment.dataset}-{experiment.source_split()}-{key.hexdigest()[:16]}.safetensors"
    return cache_folder() / "statistics" / name
