"""Corruptions as folders of pictures: the official ImageNet-C layout, and copies made on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from multipool.core import brief, replacing
from multipool.data.assembled import SEVERITIES, AssembledDataset, corruptions
from multipool.data.copies import code_version, not_kept, picture_seed, variant
from multipool.data.corruptions import corrupt
from multipool.data.files import (
    FileImages,
    Framing,
    class_folders,
    decode,
    folders,
    listed,
    read_names,
)
from multipool.data.protocol import Bytes, DataOptions, Ints, SourceImages

JPEG_QUALITY = 85  # of the official ImageNet-C files


def official_files(
    name: str,
    root: Path,
    framing: Framing,
    options: DataOptions,
    source_of: Callable[[str, tuple[str, ...]], SourceImages],
) -> AssembledDataset:
    """Return a dataset over ``root/<corruption>/<severity>/<class>/<image>``, decoded lazily.

    ``source_of(split, classes)`` gives the clean images, with labels as positions in ``classes``.
    """
    domains = corruptions(options.domains)
    for domain in domains:
        place = root / domain / str(options.severity)
        if not place.is_dir():
            raise FileNotFoundError(
                f"{root} has no folder {domain}/{options.severity}; unpack that part of the "
                f"official set or leave {domain} out of the domains"
            )
    classes = label_names(options, root / domains[0] / str(options.severity))

    @cache
    def files(domain: str) -> FileImages:
        return pick_files(root / domain / str(options.severity), classes, framing, options)

    def read(domain: str, severity: int, rows: Ints) -> Tensor:
        own = files(domain)  # rows mean the same pictures at every severity
        return FileImages(root / domain / str(severity), own.names, own.labels, framing).read(rows)

    return AssembledDataset(
        name=name,
        num_classes=len(classes),
        size=framing.size,
        resize=framing.describe(),
        domains=domains,
        labels_of=lambda domain: files(domain).labels,
        read=read,
        source_of=lambda split: source_of(split, classes),
        classes=classes,
        severities=SEVERITIES,
        severity=options.severity,
        lazy=True,
    )


def label_names(options: DataOptions, place: Path) -> tuple[str, ...]:
    """Return the class folders in label order: those of ``class_list``, else the sorted present."""
    if options.class_list is not None:
        return read_names(Path(options.class_list))
    classes = folders(place)
    if len(classes) < 2:
        raise FileNotFoundError(f"{place} must have one folder a class, got {len(classes)} folders")
    return classes


def pick_files(
    place: Path, classes: tuple[str, ...], framing: Framing, options: DataOptions
) -> FileImages:
    """Return the pictures of ``place``: those of ``image_list``, else all."""
    if options.image_list is None:
        return class_folders(place, classes, framing)
    index = {name: label for label, name in enumerate(classes)}
    names, labels = [], []
    for path, _ in listed(Path(options.image_list), place):
        folder = path.split("/")[0]
        if folder not in index:
            raise ValueError(
                f"{options.image_list} names {brief(path)}, but {brief(folder)!r} is none of the "
                f"{len(index)} classes"
            )
        names.append(path)
        labels.append(index[folder])
    return FileImages(place, names, np.asarray(labels, dtype=np.int64), framing)


class FileCopies:
    """Corrupted copies of clean pictures, ``(domain, severity, rows)`` to images.

    Each picture is corrupted by itself when first asked for, kept in the cache as a JPEG of the
    official quality, and read from there, so the first pass and the next see the same bytes. The
    folder is named after the clean files' names, sizes and times, the code, and the seed.
    """

    def __init__(self, clean: FileImages, folder: Path, seed: int = 0) -> None:
        self._clean = clean
        self._seed = seed
        total = hashlib.blake2b(str(clean.root.resolve()).encode(), digest_size=8)
        for name in clean.names:
            stat = (clean.root / name).stat()
            total.update(f"{name}\n{stat.st_size}\n{stat.st_mtime_ns}\n".encode())
        self._folder = folder / f"{total.hexdigest()}-{code_version()}-seed{seed}"

    def __call__(self, domain: str, severity: int, rows: Ints) -> Tensor:
        """Return rows of a copy, uint8 ``(B, 3, H, W)``."""
        images = np.stack([self._one(domain, severity, int(row)) for row in rows])
        return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()

    def _one(self, domain: str, severity: int, row: int) -> Bytes:
        name, size = self._clean.names[row], self._clean.framing.size
        path = (self._folder / variant(domain) / str(severity) / name).with_suffix(".JPEG")
        if path.is_file():
            try:
                return decode(path, Framing(size, size))
            except ValueError:
                pass  # damaged: made again below
        clean = decode(self._clean.root / name, self._clean.framing)
        own = picture_seed(self._seed, name)
        copy = corrupt(clean[None], domain, severity=severity, seed=own)[0]
        try:
            write_jpeg(path, copy)
        except OSError as error:
            raise not_kept(path, error) from None
        return decode(path, Framing(size, size))


def write_jpeg(path: Path, image: Bytes, optimize: bool = False) -> None:
    """Write a picture in the official quality; optimised, it is smaller and takes longer."""
    from PIL import Image

    with replacing(path) as part:
        Image.fromarray(image).save(part, format="JPEG", quality=JPEG_QUALITY, optimize=optimize)
