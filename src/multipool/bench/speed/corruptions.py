"""How fast corruptions are made, beside the package ``imagecorruptions`` where it imports."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray

from multipool.data.corruptions import COMMON, corrupt

Progress = Callable[[str], None]


@dataclass(frozen=True)
class CorruptionSpeed:
    """Images a second of one corruption; ``reference`` is None where the package cannot do it."""

    name: str
    pixels: int  # side of the images
    ours: float
    reference: float | None

    @property
    def ratio(self) -> float | None:
        """How many times faster ours is."""
        return None if self.reference is None else self.ours / self.reference


def measure_corruptions(
    names: Iterable[str] = COMMON,
    pixels: int = 32,
    images: int = 512,
    reference_images: int = 32,
    severity: int = 5,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[CorruptionSpeed]:
    """Measure every corruption on ``images`` random pictures, after a warm-up.

    The reference does one image at a time and is much slower: it gets ``reference_images`` of
    them, right after ours, so both see the same load. Its parameters are ImageNet-C's at any size.
    """
    batch = _pictures(images, pixels)
    there = torch.from_numpy(batch).to(device)
    package = reference_package()
    rows = []
    for name in names:
        if progress is not None:
            progress(name)
        corrupt(there[:8], name, severity)  # tables and textures are made once
        ours = len(batch) / _seconds(partial(corrupt, there, name, severity), device)
        reference = None
        if package is not None:
            reference = _reference_speed(package, batch[:reference_images], name, severity)
        rows.append(CorruptionSpeed(name, pixels, ours, reference))
    return rows


def overall(speeds: Sequence[float]) -> float:
    """Return images a second over all: total images over total time, a harmonic mean.

    >>> overall([100.0, 300.0])
    150.0
    """
    return len(speeds) / sum(1 / speed for speed in speeds)


def reference_package() -> ModuleType | None:
    """Return ``imagecorruptions`` if it imports: it needs ``setuptools<81``, among others."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("imagecorruptions")
    except Exception:  # a broken installation raises nearly anything
        return None


def _pictures(count: int, pixels: int) -> NDArray[np.uint8]:
    """Return smooth random pictures with some noise, uint8 ``(count, pixels, pixels, 3)``."""
    rng = np.random.default_rng(0)
    coarse = torch.from_numpy(rng.uniform(0, 255, (count, 3, 4, 4)).astype(np.float32))
    smooth = torch.nn.functional.interpolate(coarse, size=(pixels, pixels), mode="bilinear")
    noise = rng.normal(0, 12, (count, pixels, pixels, 3))
    return (smooth.permute(0, 2, 3, 1).numpy() + noise).clip(0, 255).astype(np.uint8)


def _seconds(work: Callable[[], object], device: str) -> float:
    """Return the time of the faster of two runs."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def _reference_speed(
    package: ModuleType, batch: NDArray[np.uint8], name: str, severity: int
) -> float | None:
    """Return the package's images a second, or None for a corruption that fails in it."""

    def one_by_one() -> None:
        for image in batch:
            package.corrupt(image, corruption_name=name, severity=severity)

    try:
        with _older_numpy():
            package.corrupt(batch[0], corruption_name=name, severity=severity)
            return len(batch) / _seconds(one_by_one, "cpu")
    except Exception:  # glass blur does, with today's scikit-image
        return None


@contextmanager
def _older_numpy() -> Iterator[None]:
    """Give NumPy 2 the name ``float_`` back for a while: the package's fog asks for it."""
    if hasattr(np, "float_"):
        yield
        return
    np.float_ = np.float64  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del np.float_  # type: ignore[attr-defined]
