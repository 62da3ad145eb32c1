"""Draw the embedded dataset, or take it from the cache."""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError

from multipool.core import ImageSet, lookup, numpy_generator, read_tensors, write_tensors
from multipool.data.places import cache_folder
from multipool.data.shapes.fills import FILLS
from multipool.data.shapes.outlines import OUTLINES
from multipool.data.shapes.scene import SIDE, page

__all__ = ["NUM_CLASSES", "SIDE", "SPLITS", "class_names", "draw"]

NUM_CLASSES = len(OUTLINES) * len(FILLS)
SPLITS = {"train": "the source model learns from it", "test": "streams are made of it"}

_WORTH_KEEPING = 1000  # images; fewer are drawn faster than they are worth a file


def class_names() -> tuple[str, ...]:
    """Return the 100 names, by label: outline first, then fill.

    >>> class_names()[0], class_names()[57]
    ('disc-plain', 'ring-rays')
    """
    return tuple(f"{outline}-{fill}" for outline in OUTLINES for fill in FILLS)


def draw(split: Literal["train", "test"], count: int, seed: int = 0) -> ImageSet:
    """Return ``count`` images, uint8 ``(count, 3, 32, 32)``, the same for the same arguments.

    Every 100 images in a row hold each class once, in random order, and a shorter draw is the
    beginning of a longer one. Splits and seeds are independent of each other. Draws of 1,000
    images or more are kept in ``MULTIPOOL_CACHE`` (else the user's cache folder).

    >>> draw("test", 100).labels.bincount().tolist() == [1] * 100
    True
    """
    lookup(SPLITS, split, "split")
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    if count < _WORTH_KEEPING:
        return _draw(split, count, seed)
    path = cache_folder() / "shapes" / f"{_version()}-{split}-{count}-seed{seed}.safetensors"
    return _stored(path, count) or _keep(path, _draw(split, count, seed))


def _draw(split: str, count: int, seed: int) -> ImageSet:
    """Draw page after page, each from a generator of its own."""
    images, labels = [], []
    for number in range(-(-count // NUM_CLASSES)):
        rng = numpy_generator(seed, "shapes", split, number)
        order = torch.from_numpy(rng.permutation(NUM_CLASSES))
        images.append(page(rng)[order])
        labels.append(order)
    return ImageSet(torch.cat(images)[:count], torch.cat(labels)[:count], domain="clean")


@cache
def _version() -> str:
    """Return a fingerprint of the code that draws, so that pictures of older code are left."""
    code = hashlib.sha256()
    for name in ("outlines", "fills", "scene"):
        code.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return code.hexdigest()[:12]


def _stored(path: Path, count: int) -> ImageSet | None:
    """Return the images kept at ``path``, or nothing if there are none that can be used."""
    try:
        tensors, _ = read_tensors(path)
        images, labels = tensors["images"], tensors["labels"]
    except (OSError, ValueError, KeyError):
        return None  # a damaged file is drawn again and replaced
    whole = images.shape == (count, 3, SIDE, SIDE) and labels.shape == (count,)
    return ImageSet(images, labels, domain="clean") if whole else None


def _keep(path: Path, drawn: ImageSet) -> ImageSet:
    """Write the images to the cache, if there is a place for it, and return them."""
    # A full or read-only disk costs time, never the images.
    with contextlib.suppress(OSError, SafetensorError):
        write_tensors(path, {"images": drawn.images, "labels": drawn.labels})
    return drawn
