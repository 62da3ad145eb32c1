"""Whether the settings of an experiment are of their kind, and fit its dataset."""

from __future__ import annotations

import dataclasses
import typing
from math import inf

if typing.TYPE_CHECKING:
    from multipool.bench.run.experiment import Experiment

# Datasets whose images have one size, and those whose classes are what they are.
_ONE_SIZE = (
    "shapes-c",
    "cifar10-c",
    "cifar100-c",
    "tiny-imagenet-c",
    "imagenet-c",
    "domainnet126",
)
_OWN_CLASSES = tuple(name for name in _ONE_SIZE if name != "imagenet-c")


def check_kinds(experiment: Experiment) -> None:
    """Check that every setting is of its kind: a file may have put anything there."""
    hints = typing.get_type_hints(type(experiment))
    for setting in dataclasses.fields(experiment):
        name, value = setting.name, getattr(experiment, setting.name)
        if hints[name] in (str, str | None) and not isinstance(value, str | None):
            raise ValueError(f"{name} must be a name, got {value!r}")
        if hints[name] is bool and not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {value!r}")
        low = setting.metadata.get("least")
        if low is not None and value is not None and (type(value) is not int or value < low):
            raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")
    domains = () if experiment.domains is None else experiment.domains
    if not isinstance(domains, tuple) or not all(isinstance(name, str) for name in domains):
        raise ValueError(f"domains must be a list of names, got {domains!r}")
    gamma = experiment.gamma
    if isinstance(gamma, bool) or not isinstance(gamma, int | float) or not 0 < gamma < inf:
        raise ValueError(f"gamma must be greater than 0, got {gamma!r}")


def check_data(experiment: Experiment) -> None:
    """Refuse what the dataset would not look at."""
    if experiment.size is not None and experiment.dataset in _ONE_SIZE:
        raise ValueError(
            f"size is for --dataset folder, got {experiment.size} with {experiment.dataset}, whose "
            "images have one size; leave it out"
        )
    if experiment.classes is not None and experiment.dataset in _OWN_CLASSES:
        raise ValueError(
            f"classes are for --dataset folder or imagenet-c, got {experiment.classes} with "
            f"{experiment.dataset}; leave it out"
        )
