"""What it takes to make a row again, in one mapping that every result and table carries.

A certificate names nothing of the machine's folders: weights and images are told by digests.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

import torch
from torch import nn

from multipool import models
from multipool.bench.run.environment import machine, versions
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.rerun import command
from multipool.data import Dataset, Stream

Certificate = Mapping[str, Any]
PARTS = (
    "weights",
    "preprocessing",
    "protocol",
    "method",
    "seed",
    "stream",
    "versions",
    "machine",
    "command",
)
# Another machine or version may round otherwise; whatever else differs makes another experiment.
CIRCUMSTANCES = ("versions", "machine")
_PLACES = ("data_dir", "device", "weights", "seed")


def certify(
    experiment: Experiment,
    weights: Mapping[str, str],
    model: nn.Module,
    dataset: Dataset,
    stream: Stream,
    device: torch.device,
) -> dict[str, Any]:
    """Return the certificate of a run; ``weights`` are name and digest as in ``Result``."""
    settings = {**experiment.settings(), "weights": portable(weights["name"])}
    settings["model"] = None if experiment.model is None else portable(experiment.model)
    if experiment.classes is not None:
        settings["classes"] = PurePath(experiment.classes).name
    if experiment.data_dir is not None:
        settings["data_dir"] = "DATA"
    shown = dataclasses.asdict(experiment.stream())
    shown |= {key: settings.get(key) for key in ("dataset", "severity", "size", "classes")}
    shown["domains"] = list(stream.domains)
    del shown["seed"]  # has a place of its own
    method = {k: v for k, v in settings.items() if k not in (*shown, *_PLACES)}
    return {
        "weights": {**weights, "name": settings["weights"]},
        "preprocessing": preprocessing(model, dataset),
        "protocol": shown,
        "method": method,
        "seed": experiment.seed,
        "stream": stream_digest(stream),
        "versions": versions(),
        "machine": machine(device),
        "command": command({**settings, "device": "auto"}),
    }


def settings_of(certificate: Certificate) -> dict[str, Any]:
    """Return the settings of :class:`Experiment` in a certificate, without any place.

    ``weights``, ``model`` and ``classes`` are names of files, which are somewhere else.
    """
    known = {f.name for f in dataclasses.fields(Experiment)}
    shown = {**certificate["protocol"], **certificate["method"]}
    settings = {key: value for key, value in shown.items() if key in known}
    return {**settings, "seed": certificate["seed"], "weights": certificate["weights"]["name"]}


def portable(name: str) -> str:
    """Return a name of weights or of a model without the folders of a machine.

    >>> portable("nets/mine.py:make"), portable("a/b.pt"), portable("timm:x"), portable("hf:a/b")
    ('mine.py:make', 'b.pt', 'timm:x', 'hf:a/b')
    """
    if models.is_own(name):
        return f"{models.file_of(name).name}:{name.rpartition(':')[2]}"
    hub, sign, rest = name.partition(":")
    if models.is_foreign(name):
        # Hugging Face takes folders as well as the names of its hub, which have a stroke in them.
        return f"{hub}{sign}{PurePath(rest).name}" if Path(rest).is_dir() else name
    return PurePath(name).name


def preprocessing(model: nn.Module, dataset: Dataset) -> dict[str, object]:
    """Return what is done to a picture before the first layer of the model sees it.

    ``mean`` and ``std`` None: the model does not say, whatever it does is inside it.
    """
    steps = [part for part in model.modules() if isinstance(part, models.Normalise)]
    numbers = {
        name: [round(v, 7) for v in getattr(steps[0], name).flatten().tolist()] if steps else None
        for name in ("mean", "std")
    }
    return {**numbers, "size": dataset.size, "resize": getattr(dataset, "resize", None)}


def stream_digest(stream: Stream) -> str:
    """Return a short name for the order of a stream and the pictures it begins with."""
    total = hashlib.sha256()
    for numbers in (stream.labels, stream.domain_ids, stream.rows):
        total.update(numbers.astype("<i8").tobytes())
    if len(stream):
        total.update(stream[0].images.cpu().contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def pack(certificates: Iterable[Certificate]) -> str:
    """Return the certificates of a row's runs as one cell of a table; "" if one is missing.

    A list in JSON: the first whole, of each of the others the parts that are not the first's.

    >>> pack([{"seed": 0, "stream": "a"}, {"seed": 1, "stream": "a"}])
    '[{"seed":0,"stream":"a"},{"seed":1}]'
    """
    found = list(certificates)
    if not found or not all(found):
        return ""
    first, *rest = found
    short = [{k: v for k, v in one.items() if v != first.get(k)} for one in rest]
    return json.dumps([first, *short], separators=(",", ":"))


def unpack(text: str) -> list[Certificate]:
    """Return the certificates in a cell of a table; none in an empty one.

    >>> unpack('[{"seed":0,"stream":"a"},{"seed":1}]')[1]
    {'seed': 1, 'stream': 'a'}
    """
    if not text:
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("its certificate is not readable as JSON") from None
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise ValueError("its certificate must be a list of mappings")
    return [{**found[0], **one} for one in found]


def check_certificate(certificate: Certificate) -> None:
    """Raise ``ValueError`` unless every part is there and of its kind."""
    missing = [part for part in PARTS if part not in certificate]
    if missing:
        raise ValueError(f"its certificate has no '{missing[0]}'")
    kinds: dict[str, type] = {"seed": int, "stream": str, "command": str}
    for part in PARTS:
        kind = kinds.get(part, dict)
        if not isinstance(certificate[part], kind):
            raise ValueError(f"its certificate's '{part}' must be a {kind.__name__}")
    weights = certificate["weights"]
    if not all(isinstance(weights.get(key), str) for key in ("name", "digest")):
        raise ValueError("its certificate's 'weights' must have a name and a digest")
