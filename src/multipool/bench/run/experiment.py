"""One experiment as plain data: everything that decides its result, checked before it runs."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multipool import methods, models
from multipool.bench.run.checks import check_data, check_kinds
from multipool.bench.run.hyperparameters import (
    ONE_SOURCE,
    SHIPPED_FOR,
    SOURCE_SPLITS,
    published_options,
)
from multipool.core import lookup, unknown
from multipool.data import DATASETS, PROTOCOLS, DataOptions, StreamConfig
from multipool.decode import DECODERS
from multipool.engine.setup import FALLBACKS, check_guard, configure
from multipool.memory import MEMORIES
from multipool.ops.flat import DTYPES

SPLITS = ("train", "test")


def memories() -> list[str]:
    """Return the names that ``memory`` can have; ``single`` is the method's own pool."""
    return sorted({"single", *MEMORIES})


def _setting(default: Any, about: str, metavar: str = "NAME", least: int | None = None) -> Any:  # noqa: ANN401
    """Return a field with all that is known about a setting: the command line asks for it here."""
    return field(default=default, metadata={"help": about, "metavar": metavar, "least": least})


def _of(names: Iterable[str]) -> str:
    return f"One of: {', '.join(names)}."


@dataclass(frozen=True)
class Experiment:
    """One method, one memory, one dataset, one protocol, one seed.

    Every field is a setting: an option of ``multipool run``, a key of a sweep's file and of the
    ``settings`` in ``result.json``. ``options`` are fields of the method's config and
    ``memory_options`` arguments of the bank (``--set``), on top of what was published.
    """

    dataset: str = _setting("shapes-c", _of(DATASETS))
    method: str = _setting("multipool", _of(methods.METHODS))
    memory: str | None = _setting(
        None,
        f"{_of(memories())} Left out: the method's own pool, which is 'single'; mcm+ in multipool.",
    )
    protocol: str = _setting("ptta", _of(PROTOCOLS))
    model: str | None = _setting(
        None,
        f"Architecture, where the weights do not name it. {_of(models.MODELS)} Or from elsewhere, "
        f"without --weights with its own: {', '.join(models.SPELLINGS)}.",
    )
    weights: str | None = _setting(
        None,
        f"A .safetensors or .pt file, or a shipped name: {', '.join(models.SHIPPED)}. Left out: "
        "those shipped for the dataset.",
        "FILE",
    )
    batchnorm: bool = _setting(
        False,
        "Put BatchNorm before the model's other normalisation layers, measured on training images.",
        "",
    )
    data_dir: str | None = _setting(None, "Where datasets lie; else MULTIPOOL_DATA.", "DIR")
    domains: tuple[str, ...] | None = _setting(
        None, "Domains in stream order; left out: the paper's.", "A,B,..."
    )
    severity: int = _setting(5, "Severity of the corruptions.", "1-5")
    size: int | None = _setting(
        None, "Side of a folder's pictures; left out: the model's own, else 224.", "PX", least=1
    )
    classes: str | None = _setting(
        None,
        "The model's classes, one a line; some of them with their numbers ('207 retriever').",
        "FILE",
    )
    batch_size: int = _setting(64, "Images in a batch.", "N", least=1)
    gamma: float = _setting(0.1, "Dirichlet concentration; smaller: more correlated.", "G")
    rounds: int = _setting(20, "Repetitions of a recurring stream.", "R", least=1)
    shown: int = _setting(1, "Classes that each domain of a few stream shows.", "N", least=1)
    seed: int = _setting(0, "Seed of everything random.", "N", least=0)
    device: str = _setting("auto", "auto, cpu, cuda or cuda:N; auto: a GPU if there is.")
    guard: bool = _setting(False, "Undo what breaks the model.", "")
    fallback: str = _setting(
        "snapshot",
        f"What --guard goes back to when predictions collapse: {' or '.join(FALLBACKS)}.",
    )
    limit: int | None = _setting(
        None,
        "At most N images in all, the same ones in every domain; of few classes, images of these.",
        "N",
        least=1,
    )
    distinct: bool = _setting(
        False, "Show other images in every domain, so that none comes twice.", ""
    )
    source: str | None = _setting(
        None,
        f"Clean images for source statistics: {' or '.join(SPLITS)}. Left out: what the "
        "public code takes (petta, mecta: test, of which the stream shows corrupted copies).",
        "SPLIT",
    )
    precision: str = _setting("float32", f"{_of(DTYPES)} Of the method's passes.")
    compile: bool = _setting(False, "Use torch.compile.", "")
    reset_every: int | None = _setting(
        None, "Return to the source model every N batches; left out: never.", "N", least=1
    )
    decode: str | None = _setting(
        None,
        f"{_of(DECODERS)} Whether answers are read in the order of the stream. Left out: sequence "
        "for multipool, none for the others.",
    )
    options: Mapping[str, object] = field(default_factory=dict)
    memory_options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kinds(self)
        check_data(self)
        lookup(DATASETS, self.dataset, "dataset")
        self.stream()
        self.data()
        _check_method(self)
        _check_weights(self)
        if self.precision not in DTYPES:
            raise unknown("precision", self.precision, DTYPES)
        check_guard(self.guard, self.fallback)
        if self.decode is not None and self.decode not in DECODERS:
            raise unknown("decoder", self.decode, DECODERS)
        if self.source is not None and self.source not in SPLITS:
            raise unknown("source split", self.source, SPLITS)

    def stream(self) -> StreamConfig:
        """Return the part that decides the order of the samples."""
        own = {f.name for f in dataclasses.fields(self)}
        shared = [f.name for f in dataclasses.fields(StreamConfig) if f.name in own]
        return StreamConfig(**{name: getattr(self, name) for name in shared})

    def data(self) -> DataOptions:
        """Return the part that says where the images are."""
        return DataOptions(
            data_dir=self.data_dir,
            severity=self.severity,
            domains=self.domains,
            size=self.size,
            class_list=self.classes,
        )

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

    def decoder(self) -> str:
        """Return the decoder's name: the chosen one, or the method's own."""
        return methods.METHODS[self.method].decodes if self.decode is None else self.decode

    def settings(self) -> dict[str, object]:
        """Return everything that decides the result, ready for JSON; options are complete."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["domains"] = None if self.domains is None else list(self.domains)
        values["weights"] = self.weights_name()
        values["source"] = self.source_split() if needs_source(self) else None
        values["options"] = self.method_options()
        values["memory_options"] = dict(self.memory_options)
        values["decode"] = self.decoder()
        # What decides nothing is left out, so that results from before there was a choice stay
        # valid; but where a method decodes by itself, it is said that it did not.
        if values["decode"] == methods.METHODS[self.method].decodes == "none":
            del values["decode"]
        if not self.guard:
            del values["fallback"]
        if self.protocol != "few":
            del values["shown"]
        for name in ("distinct", "batchnorm"):
            if not values[name]:
                del values[name]
        for name in ("size", "classes"):
            if values[name] is None:
                del values[name]
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
    named = experiment.memory or methods.usual_memory(experiment.method)
    name = own_pool if named == "single" else named
    # Any number of classes does: options do not depend on it, and an empty bank costs nothing.
    MEMORIES[str(name)](100, **experiment.memory_options)  # type: ignore[arg-type]


def _check_weights(experiment: Experiment) -> None:
    """Check that the model can be found, without reading it."""
    inside = experiment.model is not None and _self_contained(experiment.model) is None
    if inside and experiment.model not in models.MODELS:
        raise unknown("model", experiment.model, [*models.MODELS, *models.SPELLINGS])
    if experiment.model in models.SHIPPED and experiment.weights not in (None, experiment.model):
        raise ValueError(
            f"--model {experiment.model} comes with its weights, got --weights "
            f"{experiment.weights} as well; leave one of them out"
        )
    name = experiment.weights_name()
    if experiment.model is not None and models.is_own(experiment.model):
        file = models.file_of(experiment.model)
        if not file.is_file():
            raise FileNotFoundError(f"no Python file at {file}, of --model {experiment.model}")
    if name in models.SHIPPED or models.is_foreign(name):
        return
    if not Path(name).is_file():
        raise FileNotFoundError(
            f"no weights at {name}; pass a file or one of: {', '.join(models.SHIPPED)}"
        )


def _self_contained(model: str | None) -> str | None:
    """Return ``model`` if it names weights as well as an architecture."""
    if model is not None and (model in models.SHIPPED or models.is_foreign(model)):
        return model
    return None
