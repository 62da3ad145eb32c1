"""Corrupted copies of clean sets, in the layout in which the benchmark's authors publish them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from multipool.core import lookup
from multipool.data import DATASETS, DataOptions
from multipool.data.files import Framing, class_folders, folders
from multipool.data.write import SEVERITIES, Progress, write_cifar_c, write_folders

# Datasets whose clean set is one array; the others are pictures in class folders.
ARRAYS = ("shapes-c", "cifar10-c", "cifar100-c")
SIZES = (32, 64, 224)  # sides for which parameters are published


def copy_dataset(
    name: str,
    out: str | Path,
    names: Sequence[str],
    data_dir: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> None:
    """Write every severity of the clean test images of a dataset of ``ARRAYS``, as CIFAR-C."""
    lookup(dict.fromkeys(ARRAYS), name, "dataset kept as arrays")
    clean = DATASETS[name](DataOptions(data_dir=data_dir)).source("test").whole()
    images = clean.images.permute(0, 2, 3, 1).contiguous().numpy()
    write_cifar_c(images, clean.labels.numpy(), out, names, seed, progress)


def copy_folder(
    images: str | Path,
    out: str | Path,
    names: Sequence[str],
    size: int = 224,
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    progress: Progress | None = None,
) -> None:
    """Write pictures of ``images/<class>/`` as ImageNet-C does: ``corruption/severity/class/``.

    Pictures are scaled and cropped to ``size``: for 224 the shorter side goes to 256 first.
    """
    if size not in SIZES:
        known = ", ".join(str(side) for side in SIZES)
        raise ValueError(f"size must be one of {known}, got {size}")
    root = Path(images)
    if not root.is_dir():
        raise FileNotFoundError(f"no folder with class folders at {root}")
    files = class_folders(root, folders(root), Framing(size, 256 if size == 224 else size))

    def read(row: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        return files.array(np.asarray([row]))[0]

    write_folders(list(files.names), read, out, names, severities, seed, progress)
