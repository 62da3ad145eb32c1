"""Load what an experiment needs, and keep it for the next experiment that needs the same."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from multipool import data, models
from multipool.bench.run.experiment import Experiment
from multipool.data import Dataset
from multipool.models.batchnorm import MOST


@dataclass(frozen=True)
class Loaded:
    """A dataset and the model for it, which has as many outputs as there are classes."""

    dataset: Dataset
    model: nn.Module
    num_classes: int
    digest: str  # of the model's weights as they came
    notes: tuple[str, ...]  # what whoever reads the result should know about them


class Loader:
    """The last dataset and the last model asked for; runs in a row load them once.

    Nothing it hands out is changed by a run: datasets are read only, adapters copy the model.
    """

    def __init__(self) -> None:
        self._dataset: tuple[object, Dataset] | None = None
        self._model: tuple[object, nn.Module] | None = None
        self._measured: tuple[object, nn.Module] | None = None  # with BatchNorm put in

    def dataset(self, experiment: Experiment) -> Dataset:
        """Return the experiment's dataset."""
        options = experiment.data()
        key = (experiment.dataset, options)
        if self._dataset is None or self._dataset[0] != key:
            self._dataset = (key, data.DATASETS[experiment.dataset](options))
        return self._dataset[1]

    def model(self, experiment: Experiment, num_classes: int, device: torch.device) -> nn.Module:
        """Return the experiment's source model on ``device``."""
        name = experiment.weights_name()
        architecture = experiment.architecture()
        key = (name, _stamp(name), architecture, num_classes, device)
        if self._model is None or self._model[0] != key:
            model = models.load(name, num_classes=num_classes or None, architecture=architecture)
            self._model = (key, model.to(device))
        return self._model[1]

    def both(self, experiment: Experiment, device: torch.device) -> Loaded:
        """Return the dataset and the model, made to fit each other."""
        dataset = self.dataset(experiment)
        outputs = getattr(dataset, "outputs", None)  # some of the model's, or all
        wanted = dataset.num_classes if outputs is None else 0
        model = as_it_came = self.model(experiment, wanted, device)
        digest = model_digest(model)
        if outputs is not None:
            model = models.with_outputs(model, outputs)
        own = getattr(model, "size", None)
        if experiment.dataset == "folder" and experiment.size is None and own is not None:
            dataset = self.dataset(replace(experiment, size=own))
        count = dataset.num_classes or models.classifier(model).out_features
        notes = _notes(experiment, model, dataset)
        if experiment.batchnorm:
            source = dataset.source("train")
            key = (as_it_came, experiment.dataset, experiment.data(), dataset.size)
            if self._measured is None or self._measured[0] != key:
                self._measured = (key, models.with_batchnorm(model, source))
            model = self._measured[1]
            notes += (f"BatchNorm: {source.note}; at most {MOST:,} are measured",)
        return Loaded(dataset, model, count, digest, notes)


def _notes(experiment: Experiment, model: nn.Module, dataset: Dataset) -> tuple[str, ...]:
    """Say how a model from elsewhere is normalised, and whether the images have its size."""
    if not isinstance(model, models.Normalised):
        return ()
    notes = [f"{experiment.model or experiment.weights_name()}: {model.describe()}"]
    if model.size is not None and model.size != dataset.size:
        notes.append(
            f"the model was made for {model.size} x {model.size} pixels, the images have "
            f"{dataset.size} x {dataset.size}"
        )
    return tuple(notes)


def model_digest(model: nn.Module) -> str:
    """Return a short name for the exact values of a model: the same weights, the same name."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(name.encode())
        total.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return total.hexdigest()[:16]


def weights_digest(name: str, architecture: str | None = None) -> str | None:
    """Return the :func:`model_digest` of the weights under a name as they are now.

    None where there is no file to look at: another package holds the weights, or they are gone.
    """
    stamp = _stamp(name)
    return None if stamp is None else _digest(name, stamp, architecture)


def same_weights(experiment: Experiment, made_with: Mapping[str, str]) -> bool:
    """Return whether ``Result.weights`` are those that the experiment would load now."""
    now = weights_digest(experiment.weights_name(), experiment.architecture())
    return now is None or made_with.get("digest") == now


@functools.lru_cache(maxsize=16)
def _digest(name: str, stamp: object, architecture: str | None) -> str:
    return model_digest(models.load(name, architecture=architecture))


def _stamp(name: str) -> object:
    """Return what changes when a file is replaced by another of the same name."""
    path = models.SHIPPED.get(name, Path(name))
    if not path.is_file():
        return None
    facts = path.stat()
    return (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_size)
