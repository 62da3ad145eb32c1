"""``cifar10-c`` and ``cifar100-c``: the official arrays, or copies made from the clean test set."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from torch import Tensor

from multipool.data.arrays import CleanSet, check_array, gather, load_npy, load_npz
from multipool.data.assembled import SEVERITIES, AssembledDataset, check_labels, corruptions
from multipool.data.copies import CorruptedCopies
from multipool.data.files import Framing, class_folders, folders
from multipool.data.pickles import load_batches
from multipool.data.places import cache_folder, data_folder, first_existing
from multipool.data.protocol import Bytes, DataOptions, Ints

SIZE = 32
BATCHES = {10: "cifar-10-batches-py", 100: "cifar-100-python"}
# A file by which a folder of pickled batches is recognised.
BATCH_FILES = {
    (10, "test"): "test_batch",
    (10, "train"): "data_batch_1",
    (100, "test"): "test",
    (100, "train"): "train",
}


def cifar10_c(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return CIFAR-10-C from ``CIFAR-10-C/*.npy``, or made from the clean CIFAR-10 test set."""
    return _cifar(10, options)


def cifar100_c(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return CIFAR-100-C from ``CIFAR-100-C/*.npy``, or made from the clean CIFAR-100 test set."""
    return _cifar(100, options)


def _cifar(num_classes: int, options: DataOptions) -> AssembledDataset:
    name = f"cifar{num_classes}-c"
    folder = data_folder(options.data_dir, name)
    domains = corruptions(options.domains)
    clean = cache(lambda split: clean_cifar(folder, num_classes, split))
    official = official_folder(folder, num_classes)
    if official is not None:
        arrays = OfficialArrays(official, num_classes, domains)
        labels_of, read = arrays.labels, arrays.read
        classes = None
    else:
        test = clean("test")
        read = CorruptedCopies(lambda: test, cache_folder(options.cache_dir) / name, options.seed)
        labels_of = lambda domain: test.labels  # noqa: E731
        classes = test.classes
    return AssembledDataset(
        name=name,
        num_classes=num_classes,
        size=SIZE,
        domains=domains,
        labels_of=labels_of,
        read=read,
        source_of=lambda split: clean(split).source(split),
        classes=classes,
        severities=SEVERITIES,
        severity=options.severity,
    )


def traces(num_classes: int) -> tuple[str, ...]:
    """Return the names that a data folder with CIFAR in it has one of."""
    stem = f"cifar{num_classes}"
    return (
        *_official_names(num_classes),
        f"{stem}_test.npz",
        BATCHES[num_classes],
        f"{stem}/test",
        f"CIFAR-{num_classes}/test",
        "labels.npy",
    )


def _official_names(num_classes: int) -> tuple[str, ...]:
    return (f"CIFAR-{num_classes}-C", f"cifar{num_classes}-c")


def official_folder(folder: Path, num_classes: int) -> Path | None:
    """Return the folder of the official arrays, in ``folder`` or itself, if there is one."""
    if (folder / "labels.npy").is_file():
        return folder
    return first_existing(folder, _official_names(num_classes))


class OfficialArrays:
    """The official layout: ``NAME.npy`` holds severities 1 to 5 one after the other."""

    def __init__(self, folder: Path, num_classes: int, domains: tuple[str, ...]) -> None:
        self._folder = folder
        labels = check_labels(
            load_npy(folder / "labels.npy"), num_classes, f"the labels of {folder / 'labels.npy'}"
        )
        if len(labels) % len(SEVERITIES):
            raise ValueError(
                f"{folder / 'labels.npy'} must hold 5 severities of equal length, "
                f"got {len(labels)} labels"
            )
        self._all = labels
        self._count = len(labels) // len(SEVERITIES)
        if (self._all.reshape(len(SEVERITIES), -1) != self._all[: self._count]).any():
            raise ValueError(f"{folder / 'labels.npy'} must repeat the same labels per severity")
        self._open = cache(self._array)
        for domain in domains:
            self._open(domain)

    def labels(self, domain: str) -> Ints:
        """Return the ``(n,)`` labels, the same in every domain and at every severity."""
        return self._all[: self._count]

    def read(self, domain: str, severity: int, rows: Ints) -> Tensor:
        """Return rows of one corruption at one severity, uint8 ``(B, 3, 32, 32)``."""
        return gather(self._open(domain), (severity - 1) * self._count + np.asarray(rows))

    def _array(self, domain: str) -> Bytes:
        path = self._folder / f"{domain}.npy"
        if not path.is_file():
            raise FileNotFoundError(
                f"{self._folder} has no {domain}.npy; fetch the official set again or leave "
                f"{domain} out of the domains"
            )
        array = check_array(load_npy(path), SIZE, str(path))
        if len(array) != len(self._all):
            raise ValueError(
                f"{path} has {len(array)} images but there are {len(self._all)} labels"
            )
        return array


def clean_cifar(folder: Path, num_classes: int, split: str) -> CleanSet:
    """Return the clean CIFAR images of a split from any of three layouts in ``folder``.

    ``.npz`` with images and labels; torchvision's pickled batches; folders ``<split>/<class>/``.
    """
    stem = f"cifar{num_classes}"
    names = (f"{stem}_{split}.npz",) + ((f"{stem}_train2k.npz",) if split == "train" else ())
    npz = first_existing(folder, names)
    if npz is not None:
        return load_npz(npz, num_classes, SIZE)
    batches = BATCHES[num_classes]
    for place in (folder / batches, folder):
        if place.is_dir() and (place / BATCH_FILES[num_classes, split]).is_file():
            return load_batches(place, num_classes, split)
    pictures = first_existing(folder, (f"{stem}/{split}", f"CIFAR-{num_classes}/{split}", split))
    if pictures is not None and pictures.is_dir():
        return _pictures(pictures, num_classes)
    raise FileNotFoundError(
        f"no CIFAR-{num_classes} {split} images in {folder}: put {names[0]}, {batches} or "
        f"{stem}/{split}/<class>/<image> there"
        + (f", or the official CIFAR-{num_classes}-C" if split == "test" else "")
        + f" ('multipool data fetch {stem}-c' gets it)"
    )


def _pictures(folder: Path, num_classes: int) -> CleanSet:
    """Decode ``folder/<class>/<image>``; labels are positions of the sorted class names."""
    classes = folders(folder)
    if len(classes) != num_classes:
        raise ValueError(f"{folder} must have {num_classes} class folders, got {len(classes)}")
    images = class_folders(folder, classes, Framing(SIZE, SIZE))
    return CleanSet(images.all(), images.labels, classes)
