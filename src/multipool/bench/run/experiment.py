"""One experiment as plain data: everything that decides its result, checked before it runs."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from multipool import methods, models
from multipool.bench.run.hyperparameters import (
    ONE_SOURCE,
    SHIPPED_FOR,
    SOURCE_SPLITS,
    published_options,
)
from multipool.core import lookup, unknown
from multipool.data import DATASETS, DataOptions, StreamConfig
from multipool.engine.setup import PRECISIONS, check_guard, configure
from multipool.memory import MEMORIES

SPLITS = ("train", "test")
_TEXTS = (
    *("dataset", "method", "memory", "protocol", "model", "weights", "data_dir"),
    *("device", "fallback", "source", "precision"),
)
_LEAST = (("rounds", 1), ("seed", 0), ("limit", 1), ("batch_size", 1), ("reset_every", 1))


@dataclass(frozen=True)
class Experiment:
    """One method, one memory, one dataset, one protocol, one seed.

    None means: ``memory`` the method's own pool, ``weights`` those shipped for the dataset,
    ``source`` the split that the method's authors used, ``domains`` the paper's. ``options`` are
    fields of the method's config, ``memory_options`` arguments of the bank; both go on top of what
    was published for the dataset. ``device`` "auto" takes a GPU where there is one.
    """

    dataset: str = "shapes-c"
    method: str = "rotta"
    memory: str | None = None
    protocol: str = "ptta"
    model: str | None = None
    weights: str | None = None
    data_dir: str | None = None
    domains: tuple[str, ...] | None = None
    severity: int = 5
    batch_size: int = 64
    gamma: float = 0.1
    rounds: int = 20
    seed: int = 0
    device: str = "auto"
    guard: bool = False
    fallback: str = "snapshot"  # of the guard
    limit: int | None = None
    source: str | None = None
    precision: str = "float32"
    compile: bool = False
    reset_every: int | None = None  # batches
    options: Mapping[str, object] = field(default_factory=dict)
    memory_options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_kinds(self)
        lookup(DATASETS, self.dataset, "dataset")
        _check_numbers(self)
        self.stream()
        self.data()
        _check_method(self)
        _check_weights(self)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        check_guard(self.guard, self.fallback)
        if self.source is not None and self.source not in SPLITS:
            raise unknown("source split", self.source, SPLITS)

    def stream(self) -> StreamConfig:
        """Return the part that decides the order of the samples."""
        return StreamConfig(
            protocol=self.protocol,
            batch_size=self.batch_size,
            gamma=self.gamma,
            rounds=self.rounds,
            seed=self.seed,
            limit=self.limit,
        )

    def data(self) -> DataOptions:
        """Return the part that says where the images are."""
        return DataOptions(data_dir=self.data_dir, severity=self.severity, domains=self.domains)

    def method_options(self) -> dict[str, object]:
        """Return the method's options: its usual ones, with this experiment's own on top."""
        return {**usual_options(self.method, self.dataset, self.batch_size), **self.options}

    def weights_name(self) -> str:
        """Return the file or name that the model comes from."""
        chosen = self.weights or _self_contained(self.model) or SHIPPED_FOR.get(self.dataset)
        if chosen is None:
            raise ValueError(
                f"{self.dataset} has no weights in the package; pass --weights with a file "
                f"(shipped: {', '.join(models.SHIPPED)})"
            )
        return chosen

    def architecture(self) -> str | None:
        """Return the architecture to load a file of weights as; None: the file names it."""
        if self.model in models.SHIPPED or self.weights_name() == self.model:
            return None
        return self.model

    def source_split(self) -> str:
        """Return the split that source data are taken from."""
        usual = "train" if self.dataset in ONE_SOURCE else SOURCE_SPLITS.get(self.method, "test")
        return self.source or usual

    def settings(self) -> dict[str, object]:
        """Return everything that decides the result, ready for JSON; options are complete."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["domains"] = None if self.domains is None else list(self.domains)
        values["weights"] = self.weights_name()
        values["source"] = self.source_split() if needs_source(self) else None
        values["options"] = self.method_options()
        values["memory_options"] = dict(self.memory_options)
        if not self.guard:  # then it decides nothing, and results from before it stay valid
            del values["fallback"]
        return values

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Experiment:
        """Return the experiment that :meth:`settings` was taken from, or refuse unknown keys."""
        known = {f.name for f in dataclasses.fields(cls)}
        for key in settings:
            if key not in known:
                raise unknown("setting", key, known)
        values = dict(settings)
        if isinstance(values.get("domains"), list):
            values["domains"] = tuple(typing.cast(list[str], values["domains"]))
        return cls(**values)  # type: ignore[arg-type]


def usual_options(method: str, dataset: str, batch_size: object) -> dict[str, object]:
    """Return the options of a method about which nothing is said; none of an unknown one.

    They are its defaults, and what was published for the dataset. A method that divides by the
    configured batch size is told the stream's.
    """
    if method not in methods.METHODS:
        return {}
    config = methods.METHODS[method].Config()
    usual = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    size = {"batch_size": batch_size} if "batch_size" in usual else {}
    published = published_options(method, dataset) if dataset in DATASETS else {}
    return {**usual, **published, **size}


def needs_source(experiment: Experiment) -> bool:
    """Return whether the method, with its options, asks for source data."""
    kind = methods.METHODS[experiment.method]
    options = experiment.method_options()
    return bool(kind.uses_source(configure(kind.Config(), options, experiment.method)))


def memories() -> list[str]:
    """Return the names that ``memory`` can have; ``single`` is the method's own pool."""
    return sorted({"single", *MEMORIES})


def _check_kinds(experiment: Experiment) -> None:
    """Check that names are names: a file may have put anything there."""
    for name in _TEXTS:
        value = getattr(experiment, name)
        if not isinstance(value, str | None):
            raise ValueError(f"{name} must be a name, got {value!r}")
    for name in ("guard", "compile"):
        if not isinstance(getattr(experiment, name), bool):
            raise ValueError(f"{name} must be true or false, got {getattr(experiment, name)!r}")
    domains = () if experiment.domains is None else experiment.domains
    if not isinstance(domains, tuple) or not all(isinstance(name, str) for name in domains):
        raise ValueError(f"domains must be a list of names, got {domains!r}")


def _check_numbers(experiment: Experiment) -> None:
    for name, low in _LEAST:
        value = getattr(experiment, name)
        if value is not None and (type(value) is not int or value < low):
            raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")
    gamma = experiment.gamma
    if isinstance(gamma, bool) or not isinstance(gamma, int | float) or not 0 < gamma < inf:
        raise ValueError(f"gamma must be greater than 0, got {gamma!r}")


def _check_method(experiment: Experiment) -> None:
    """Check method, memory and the options of both against their own declarations."""
    adapter = lookup(methods.METHODS, experiment.method, "method")
    if experiment.memory is not None:
        if experiment.memory not in memories():
            raise unknown("memory", experiment.memory, memories())
        if not adapter.takes_memory:
            takers = sorted(n for n, kind in methods.METHODS.items() if kind.takes_memory)
            raise ValueError(
                f"{experiment.method} has no memory, got --memory {experiment.memory}; "
                f"methods with a memory: {', '.join(takers)}"
            )
    configure(adapter.Config(), experiment.method_options(), experiment.method)
    _check_memory_options(experiment, adapter.takes_memory)


def _check_memory_options(experiment: Experiment, own_pool: str | None) -> None:
    """Build the bank once, empty: it knows best which options it takes."""
    if not experiment.memory_options:
        return
    if own_pool is None:
        raise ValueError(
            f"{experiment.method} has no memory, got options of one: "
            f"{', '.join(experiment.memory_options)}"
        )
    name = own_pool if experiment.memory in (None, "single") else experiment.memory
    # Any number of classes does: options do not depend on it, and an empty bank costs nothing.
    MEMORIES[str(name)](100, **experiment.memory_options)  # type: ignore[arg-type]


def _check_weights(experiment: Experiment) -> None:
    """Check that the model can be found, without reading it."""
    if experiment.model is not None and _self_contained(experiment.model) is None:
        lookup(models.MODELS, experiment.model, "model")
    if experiment.model in models.SHIPPED and experiment.weights not in (None, experiment.model):
        raise ValueError(
            f"--model {experiment.model} comes with its weights, got --weights "
            f"{experiment.weights} as well; leave one of them out"
        )
    name = experiment.weights_name()
    if name in models.SHIPPED or name.partition(":")[0] in models.HUBS:
        return
    if not Path(name).is_file():
        raise FileNotFoundError(
            f"no weights at {name}; pass a file or one of: {', '.join(models.SHIPPED)}"
        )


def _self_contained(model: str | None) -> str | None:
    """Return ``model`` if it names weights as well as an architecture."""
    if model is not None and (model in models.SHIPPED or model.partition(":")[0] in models.HUBS):
        return model
    return None
