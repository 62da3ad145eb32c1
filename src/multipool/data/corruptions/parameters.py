"""What a parameter set of the benchmarks holds, and which set serves which image size."""

from __future__ import annotations

from dataclasses import dataclass
from math import log


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
