"""``tiny-imagenet-c``: the official folders, or copies made from the clean validation set."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

from multipool.core import brief, replacing
from multipool.data.archives import members
from multipool.data.arrays import CleanSet, load_npz
from multipool.data.assembled import AssembledDataset
from multipool.data.copies import CorruptedCopies
from multipool.data.corrupted_files import official_files
from multipool.data.domains import SEVERITIES, corruptions
from multipool.data.files import Framing, class_folders, decode, folders
from multipool.data.places import cache_folder, data_folder, first_existing
from multipool.data.protocol import Bytes, DataOptions, SourceImages

FRAMING = Framing(64, 64)
OFFICIAL = ("Tiny-ImageNet-C", "tiny-imagenet-c", "TinyImageNet-C")
HOME = "tiny-imagenet-200"
ARCHIVES = (f"{HOME}-val.tar", f"{HOME}.zip", f"{HOME}.tar", f"{HOME}.tar.gz")
ANNOTATIONS = "val/val_annotations.txt"


def tiny_imagenet_c(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return Tiny-ImageNet-C: official ``<corruption>/<severity>/<wnid>/``, or made from ``val``.

    A label is the position of the class folder among the sorted wnids.
    """
    name = "tiny-imagenet-c"
    folder = data_folder(options.data_dir, name)
    cached = cache_folder(options.cache_dir)
    clean = cache(lambda: clean_validation(folder, cached))
    official = first_existing(folder, OFFICIAL)
    if official is not None:
        return official_files(
            name, official, FRAMING, options, lambda split: _source(folder, clean, split)
        )
    test = clean()
    classes = test.classes or ()
    return AssembledDataset(
        name=name,
        num_classes=len(classes),
        size=FRAMING.size,
        domains=corruptions(options.domains),
        labels_of=lambda domain: test.labels,
        read=CorruptedCopies(clean, cached / name, options.seed),
        source_of=lambda split: _source(folder, clean, split),
        classes=classes,
        severities=SEVERITIES,
        severity=options.severity,
    )


def _source(folder: Path, clean: Callable[[], CleanSet], split: str) -> SourceImages:
    """Return ``train/<wnid>[/images]/*``, or the validation images with a note that says so."""
    train = folder / HOME / "train"
    if split == "train" and train.is_dir():
        classes = folders(train)
        nested = bool(classes) and (train / classes[0] / "images").is_dir()
        files = class_folders(train, classes, FRAMING, "images" if nested else "")
        return SourceImages(files.labels, files.read)
    note = (
        f"there are no Tiny-ImageNet training images in {folder}; "
        "the clean validation images serve as source data"
    )
    return clean().source(note if split == "train" else "")


def clean_validation(folder: Path, cached: Path) -> CleanSet:
    """Read the validation set from its folder or archive; the decoded copy is kept in the cache."""
    home = folder if (folder / ANNOTATIONS).is_file() else folder / HOME
    if (home / ANNOTATIONS).is_file():
        files = _folder_files(home)
        total = hashlib.blake2b(digest_size=8)
        for name in sorted(files):
            total.update(f"{name}\n{len(files[name])}\n".encode() + files[name])
        return _kept(total.hexdigest(), cached, lambda: files, str(home))
    if (home / "val").is_dir():  # sorted into class folders, as many tools leave it
        classes = folders(home / "val")
        pictures = class_folders(home / "val", classes, FRAMING)
        return CleanSet(pictures.all(), pictures.labels, classes)
    archive = first_existing(folder, ARCHIVES)
    if archive is None:
        raise FileNotFoundError(
            f"no Tiny-ImageNet in {folder}: put {HOME}, {' or '.join(ARCHIVES[:2])} or the "
            "official Tiny-ImageNet-C there ('multipool data fetch tiny-imagenet-c' gets it)"
        )
    with archive.open("rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return _kept(fingerprint, cached, lambda: _archive_files(archive), str(archive))


def _folder_files(home: Path) -> dict[str, bytes]:
    names = [ANNOTATIONS, "wnids.txt", *(f"val/images/{p}" for p in _listing(home / "val/images"))]
    return {name: (home / name).read_bytes() for name in names if (home / name).is_file()}


def _listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def _archive_files(archive: Path) -> dict[str, bytes]:
    def wanted(name: str) -> bool:
        return name.startswith((f"{HOME}/val/", f"{HOME}/wnids.txt"))

    return {name.removeprefix(f"{HOME}/"): data for name, data in members(archive, wanted)}


def _kept(
    fingerprint: str, cached: Path, files: Callable[[], dict[str, bytes]], where: str
) -> CleanSet:
    """Return the decoded copy in the cache, made now if it is missing or damaged."""
    kept = cached / HOME / f"val-{fingerprint}.npz"
    if kept.is_file():
        try:
            return load_npz(kept, None, FRAMING.size)
        except ValueError:
            pass  # damaged: decoded again below
    clean = _decoded(files(), where)
    with replacing(kept) as part, part.open("wb") as file:
        names = np.asarray(clean.classes)
        np.savez(file, images=clean.images, labels=clean.labels, classes=names)
    return clean


def _decoded(files: dict[str, bytes], where: str) -> CleanSet:
    """Decode ``val/images`` in the order of the annotations."""
    rows = [line.split("\t") for line in _text(files, ANNOTATIONS, where).splitlines() if line]
    if not rows or any(len(row) < 2 for row in rows):
        raise ValueError(f"{ANNOTATIONS} of {where} must have a file and a wnid on every line")
    listed = _text(files, "wnids.txt", where).split() if "wnids.txt" in files else []
    classes = tuple(sorted(listed or {row[1] for row in rows}))
    index = {name: label for label, name in enumerate(classes)}
    for name, wnid, *_ in rows:
        if f"val/images/{name}" not in files:
            raise FileNotFoundError(
                f"{ANNOTATIONS} of {where} names {brief(name)}, which is not there"
            )
        if wnid not in index:
            raise ValueError(
                f"{ANNOTATIONS} of {where} has the class {brief(wnid)}, not in wnids.txt"
            )

    def one(row: list[str]) -> Bytes:
        return decode(files[f"val/images/{row[0]}"], FRAMING, f"{row[0]} of {where}")

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        images = np.stack(list(pool.map(one, rows)))
    labels = np.asarray([index[row[1]] for row in rows], dtype=np.int64)
    return CleanSet(images, labels, classes)


def _text(files: dict[str, bytes], name: str, where: str) -> str:
    if name not in files:
        raise FileNotFoundError(f"{where} has no {name}")
    return files[name].decode("utf-8", errors="replace")
