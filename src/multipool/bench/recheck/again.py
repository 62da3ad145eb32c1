"""A certificate's run, made again with the weights and images of whoever asks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from multipool import models
from multipool.bench.run import loader as loading
from multipool.bench.run.certificate import Certificate, settings_of
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.result import Result
from multipool.bench.run.runner import Progress, run

Show = Callable[[Progress], None]


@dataclass(frozen=True)
class Places:
    """Where things are on this machine; certificates name digests, no folders.

    ``weights`` are files, of which the one with a row's digest is taken; ``model`` is the
    ``FILE.py:FUNCTION`` of rows that were made with one, ``classes`` the file of their classes.
    ``device`` "auto" is a GPU only for rows that were made on one.
    """

    weights: Sequence[str] = ()
    data_dir: str | None = None
    model: str | None = None
    classes: str | None = None
    device: str = "auto"


class OtherWeightsError(Exception):
    """The weights at hand are not those of the row."""


class Again:
    """Makes runs again, each of them once however many rows speak of it."""

    def __init__(self, places: Places = Places()) -> None:
        self.places = places
        self._loader = loading.Loader()
        self._made: dict[str, Result] = {}

    def __call__(self, certificate: Certificate, progress: Show | None = None) -> Result:
        """Return what the run of ``certificate`` gives here and now."""
        key = json.dumps(certificate, sort_keys=True)
        if key not in self._made:
            experiment = self.experiment(certificate)
            with _threads(certificate["machine"].get("threads")):
                self._made[key] = run(experiment, None, progress, loader=self._loader)
        return self._made[key]

    def experiment(self, certificate: Certificate) -> Experiment:
        """Return the experiment of a certificate on this machine, or say what is missing."""
        settings = settings_of(certificate)
        settings["model"] = self._model(settings.get("model"))
        if settings.get("classes") is not None:
            if self.places.classes is None:
                raise FileNotFoundError(
                    f"the row was made with the list of classes {settings['classes']!r}; say where "
                    "it is with --classes FILE"
                )
            settings["classes"] = self.places.classes
        settings["weights"] = self._weights(certificate["weights"], settings["model"])
        settings["data_dir"] = self.places.data_dir
        made_on = certificate["machine"].get("device")
        auto = self.places.device == "auto" and made_on == "cpu"
        settings["device"] = "cpu" if auto else self.places.device
        return Experiment.from_settings(settings)

    def _model(self, name: Any) -> str | None:  # noqa: ANN401
        """Return the architecture; code is only run from a file that the caller names."""
        if not isinstance(name, str) or not models.is_own(name):
            return name
        return self._own(name)

    def _own(self, name: str) -> str:
        if self.places.model is None:
            raise FileNotFoundError(
                f"the row was made with a model of one's own, {name!r}; say where it is with "
                "--model FILE.py:FUNCTION"
            )
        return self.places.model

    def _weights(self, wanted: dict[str, str], model: str | None) -> str:
        name, digest = wanted["name"], wanted["digest"]
        if models.is_own(name):
            return self._own(name)
        if not self.places.weights and models.is_foreign(name):
            return name  # of another package: its digest is known once it is loaded
        files = list(self.places.weights) or [name] * (name in models.SHIPPED)
        if not files:
            raise FileNotFoundError(
                f"the row was made with the weights {name!r} (digest {digest}); say where they "
                "are with --weights FILE"
            )
        architecture = None if model in models.SHIPPED else model
        found = {file: loading.weights_digest(file, architecture) for file in files}
        for file, here in found.items():
            if here is None:
                raise FileNotFoundError(f"no weights at {file}, of --weights")
            if here == digest:
                return file
        told = ", ".join(f"{file} has {here}" for file, here in found.items())
        raise OtherWeightsError(f"weights: the row has digest {digest}, {told}")


@contextmanager
def _threads(wanted: object) -> Iterator[None]:
    """Compute with as many threads as the row was made with, if this machine has them."""
    before = torch.get_num_threads()
    if isinstance(wanted, int) and 1 <= wanted <= (os.cpu_count() or 1):
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
