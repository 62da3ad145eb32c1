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
from multipool.data.assembled import SEVERITIES, AssembledDataset, corruptions
from multipool.data.copies import CorruptedCopies
from multipool.data.corrupted_files import official_files
from multipool.data.files import EXTENSIONS, Framing, class_folders, decode, folders
from multipool.data.places import cache_folder, data_folder, first_existing
from multipool.data.protocol import Bytes, DataOptions, SourceImages

FRAMING = Framing(64, 64)
HOME = "tiny-imagenet-200"
ARCHIVES = (f"{HOME}-val.tar", f"{HOME}.zip", f"{HOME}.tar", f"{HOME}.tar.gz")
TRAINING_ARCHIVES = (f"{HOME}-train.tar", f"{HOME}-train2k.tar")
ANNOTATIONS = "val/val_annotations.txt"
OFFICIAL = ("Tiny-ImageNet-C", "tiny-imagenet-c", "TinyImageNet-C")
TRACES = (*OFFICIAL, HOME, *ARCHIVES, ANNOTATIONS)


def tiny_imagenet_c(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return Tiny-ImageNet-C: official ``<corruption>/<severity>/<wnid>/``, or made from ``val``.

    A label is the position of the class folder among the sorted wnids.
    """
    name = "tiny-imagenet-c"
    folder = data_folder(options.data_dir, name)
    cached = cache_folder(options.cache_dir)
    clean = cache(lambda: clean_validation(folder, cached))

    def source_of(split: str, classes: tuple[str, ...]) -> SourceImages:
        # The validation images are what the stream is made of: never training images.
        return _training(folder, cached, classes) if split == "train" else clean().source("test")

    official = first_existing(folder, OFFICIAL)
    if official is not None:
        return official_files(name, official, FRAMING, options, source_of)
    test = clean()
    classes = test.classes or ()
    return AssembledDataset(
        name=name,
        num_classes=len(classes),
        size=FRAMING.size,
        resize=FRAMING.describe(),
        domains=corruptions(options.domains),
        labels_of=lambda domain: test.labels,
        read=CorruptedCopies(clean, cached / name, options.seed),
        source_of=lambda split: source_of(split, classes),
        classes=classes,
        severities=SEVERITIES,
        severity=options.severity,
    )


def _training(folder: Path, cached: Path, classes: tuple[str, ...]) -> SourceImages:
    """Return ``train/<wnid>[/images]/*`` of a folder or archive; labels are those of the stream."""
    train = first_existing(folder, (f"{HOME}/train",))
    if train is None and (folder / ANNOTATIONS).is_file():  # the data folder is the set itself
        train = first_existing(folder, ("train",))
    if train is not None:
        present = folders(train)
        nested = bool(present) and (train / present[0] / "images").is_dir()
        files = class_folders(train, classes, FRAMING, "images" if nested else "")
        return SourceImages(files.labels, files.read, "train")
    archive = first_existing(folder, TRAINING_ARCHIVES)
    if archive is not None:
        return packed_training(archive, classes, cached).source("train")
    raise FileNotFoundError(
        f"no Tiny-ImageNet training images in {folder}: put {HOME}/train/<wnid>/images/*.JPEG or "
        f"{' or '.join(TRAINING_ARCHIVES)} there ('multipool data fetch tiny-imagenet-c' gets all)"
    )


def clean_validation(folder: Path, cached: Path) -> CleanSet:
    """Read the validation set from its folder or archive; the decoded copy is kept in the cache."""
    home = folder if (folder / ANNOTATIONS).is_file() else folder / HOME
    if (home / ANNOTATIONS).is_file():
        files = _folder_files(home)
        total = hashlib.blake2b(digest_size=8)
        for name in sorted(files):
            total.update(f"{name}\n{len(files[name])}\n".encode() + files[name])
        kept = cached / HOME / f"val-{total.hexdigest()}.npz"
        return _kept(kept, lambda: _annotated(files, str(home)))
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
    kept = cached / HOME / f"val-{_fingerprint(archive)}.npz"
    wanted = (f"{HOME}/val/", f"{HOME}/wnids.txt")
    return _kept(kept, lambda: _annotated(_archive_files(archive, wanted), str(archive)))


def packed_training(archive: Path, classes: tuple[str, ...], cached: Path) -> CleanSet:
    """Read ``train/<wnid>/images/*`` of an archive; labels are positions in ``classes``."""
    naming = hashlib.blake2b("\n".join(classes).encode(), digest_size=4).hexdigest()
    kept = cached / HOME / f"train-{_fingerprint(archive)}-{naming}.npz"
    wanted = (f"{HOME}/train/",)
    return _kept(kept, lambda: _sorted(_archive_files(archive, wanted), classes, str(archive)))


def _fingerprint(archive: Path) -> str:
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _folder_files(home: Path) -> dict[str, bytes]:
    pictures = sorted(f"val/images/{path.name}" for path in (home / "val/images").glob("*"))
    names = [ANNOTATIONS, "wnids.txt", *pictures]
    return {name: (home / name).read_bytes() for name in names if (home / name).is_file()}


def _archive_files(archive: Path, wanted: tuple[str, ...]) -> dict[str, bytes]:
    found = members(archive, lambda name: name.startswith(wanted))
    return {name.removeprefix(f"{HOME}/"): data for name, data in found}


def _kept(kept: Path, make: Callable[[], CleanSet]) -> CleanSet:
    """Return the decoded copy in the cache, made now if it is missing or damaged."""
    if kept.is_file():
        try:
            return load_npz(kept, None, FRAMING.size)
        except ValueError:
            pass  # damaged: decoded again below
    clean = make()
    with replacing(kept) as part, part.open("wb") as file:
        names = np.asarray(clean.classes)
        np.savez(file, images=clean.images, labels=clean.labels, classes=names)
    return clean


def _annotated(files: dict[str, bytes], where: str) -> CleanSet:
    """Decode ``val/images`` in the order of the annotations."""
    rows = [line.split("\t") for line in _text(files, ANNOTATIONS, where).splitlines() if line]
    if not rows or any(len(row) < 2 for row in rows):
        raise ValueError(f"{ANNOTATIONS} of {where} must have a file and a wnid on every line")
    listed = _text(files, "wnids.txt", where).split() if "wnids.txt" in files else []
    classes = tuple(sorted(listed or {row[1] for row in rows}))
    for name, wnid, *_ in rows:
        if f"val/images/{name}" not in files:
            raise FileNotFoundError(
                f"{ANNOTATIONS} of {where} names {brief(name)}, which is not there"
            )
        if wnid not in classes:
            raise ValueError(
                f"{ANNOTATIONS} of {where} has the class {brief(wnid)}, not in wnids.txt"
            )
    pictures = [(f"val/images/{row[0]}", row[1]) for row in rows]
    return _decoded(files, pictures, classes, where)


def _sorted(files: dict[str, bytes], classes: tuple[str, ...], where: str) -> CleanSet:
    """Decode ``train/<wnid>/images/*`` in the order of the names."""
    names = sorted(name for name in files if name.lower().endswith(EXTENSIONS))
    pictures = [(name, name.split("/")[1]) for name in names]
    strange = next((wnid for _, wnid in pictures if wnid not in classes), None)
    if strange is not None:
        raise ValueError(
            f"{where} has pictures of {brief(strange)}, none of the {len(classes)} classes"
        )
    if not pictures:
        raise FileNotFoundError(f"{where} has no {HOME}/train/<wnid>/images/*.JPEG")
    return _decoded(files, pictures, classes, where)


def _decoded(
    files: dict[str, bytes], pictures: list[tuple[str, str]], classes: tuple[str, ...], where: str
) -> CleanSet:
    """Decode (name, wnid) pairs; a label is the position of its wnid among ``classes``."""

    def one(picture: tuple[str, str]) -> Bytes:
        name = picture[0]
        return decode(files[name], FRAMING, f"{name.rsplit('/', 1)[-1]} of {where}")

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        images = np.stack(list(pool.map(one, pictures)))
    index = {name: label for label, name in enumerate(classes)}
    labels = np.asarray([index[wnid] for _, wnid in pictures], dtype=np.int64)
    return CleanSet(images, labels, classes)


def _text(files: dict[str, bytes], name: str, where: str) -> str:
    if name not in files:
        raise FileNotFoundError(f"{where} has no {name}")
    return files[name].decode("utf-8", errors="replace")
