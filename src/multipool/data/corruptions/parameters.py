"""The constants of CIFAR-C, Tiny-ImageNet-C and ImageNet-C (Hendrycks and Dietterich, ICLR 2019).

They are facts of the scripts that made the three benchmarks, in the repository
``hendrycks/robustness``, and stand in ``published.json``; the code here is our own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from math import log
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True)
class Glass:
    """Blur before and after (px), reach of a copied pixel (px), and rounds of copying."""

    sigma: float
    reach: int
    rounds: int


@dataclass(frozen=True)
class Defocus:
    """Radius of the disk (px) and sigma of the blur that softens its edge."""

    radius: float
    soften: float


@dataclass(frozen=True)
class Motion:
    """Reach (px) and decay (px) of the one-sided Gaussian streak."""

    radius: float
    sigma: float


@dataclass(frozen=True)
class Zoom:
    """End (exclusive, as ``numpy.arange`` counts) and step of the zoom factors, from 1."""

    stop: float
    step: float


@dataclass(frozen=True)
class Fog:
    """Height of the fog in units of white, and how fast its detail fades with scale."""

    amount: float
    decay: float


@dataclass(frozen=True)
class Frost:
    """Weight of the image and weight of the frost."""

    image: float
    texture: float


@dataclass(frozen=True)
class Snow:
    """Flakes (mean, std, zoom, threshold), their streaks, and the share of the image kept."""

    mean: float
    std: float
    zoom: float
    threshold: float
    streak: Motion
    keep: float


@dataclass(frozen=True)
class Spatter:
    """Drops (mean, std, smoothing in px, threshold), strength or softness, and mud or water."""

    mean: float
    std: float
    sigma: float
    threshold: float
    amount: float
    mud: bool


@dataclass(frozen=True)
class Saturate:
    """Factor and offset of the saturation."""

    scale: float
    shift: float


@dataclass(frozen=True)
class Elastic:
    """Displacement (px), its smoothness (px), and the jitter of the affine map (px)."""

    strength: float
    sigma: float
    affine: float


@dataclass(frozen=True)
class ParameterSet:
    """The published constants of one benchmark; five of each, for severities 1 to 5."""

    size: int
    gaussian_noise: tuple[float, ...]
    shot_noise: tuple[int, ...]
    impulse_noise: tuple[float, ...]
    speckle_noise: tuple[float, ...]
    gaussian_blur: tuple[float, ...]
    glass_blur: tuple[Glass, ...]
    defocus_blur: tuple[Defocus, ...]
    motion_blur: tuple[Motion, ...]
    zoom_blur: tuple[Zoom, ...]
    fog: tuple[Fog, ...]
    frost: tuple[Frost, ...]
    frost_scale: float
    snow: tuple[Snow, ...]
    spatter: tuple[Spatter, ...]
    contrast: tuple[float, ...]
    brightness: tuple[float, ...]
    saturate: tuple[Saturate, ...]
    jpeg_compression: tuple[int, ...]
    pixelate: tuple[float, ...]
    elastic_transform: tuple[Elastic, ...]


def nearest_set(sets: dict[str, ParameterSet], height: int, width: int) -> ParameterSet:
    """Return the set made for the size nearest, as a ratio, to the shorter side.

    The boundaries lie at 45 px (CIFAR-C below) and 120 px (ImageNet-C above). The constants are
    then used as they are: a blur of 2 px stays 2 px.
    """
    side = min(height, width)
    return min(sets.values(), key=lambda s: abs(log(s.size / side)))


def _published() -> dict[str, ParameterSet]:
    text = resources.files(__package__).joinpath("published.json").read_text(encoding="utf-8")
    return {name: _parameter_set(**entries) for name, entries in json.loads(text).items()}


def _parameter_set(elastic_scale: int, **entries: Any) -> ParameterSet:  # noqa: ANN401
    """Return a set whose rows are what its fields hold; elastic's are shares of a number of px.

    For ImageNet-C these are 244, not 224: so the published script has it.
    """
    rows = entries["elastic_transform"]
    entries["elastic_transform"] = [[elastic_scale * part for part in row] for row in rows]
    hints = get_type_hints(ParameterSet)
    kinds = {name: get_args(hint) for name, hint in hints.items() if get_args(hint)}
    for name, (kind, *_) in kinds.items():
        entries[name] = tuple(_level(kind, level) for level in entries[name])
    return ParameterSet(**entries)


def _level(kind: type[Any], level: Any) -> Any:  # noqa: ANN401
    """Return the constants of one severity: a number as it is, a row as one of its kind."""
    if not isinstance(level, Sequence):
        return level
    parts = zip(get_type_hints(kind).values(), level, strict=True)
    return kind(*(_level(of, part) for of, part in parts))


PARAMETER_SETS = _published()
