"""Write corrupted copies of a clean set in the layouts of CIFAR-C and ImageNet-C."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from multipool.core import lookup, replacing, write_json
from multipool.data import DATASETS, DataOptions
from multipool.data.assembled import SEVERITIES, corruptions
from multipool.data.copies import code_version, picture_seed, variant
from multipool.data.corrupted_files import write_jpeg
from multipool.data.corruptions import CORRUPTIONS, corrupt
from multipool.data.files import Framing, checked_name, class_folders, folders
from multipool.data.protocol import Bytes, Ints

# Datasets whose clean set is one array; the others are pictures in class folders.
ARRAYS = ("shapes-c", "cifar10-c", "cifar100-c")
SIZES = (32, 64, 224)  # sides for which parameters are published
NOTE = "multipool.json"  # what a folder was made from; a second call goes on only if it agrees

Progress = Callable[[str, int, int], None]
"""Called with what is being made, how much of it is done, and how much there is."""


def write_cifar_c(
    images: Bytes,
    labels: Ints,
    out_dir: str | Path,
    names: Iterable[str] = tuple(CORRUPTIONS),
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Path]:
    """Write ``NAME.npy`` (5 B, H, W, C), severities 1 to 5 in turn, and ``labels.npy``.

    Return the files written; those that an earlier, interrupted call finished are left as they
    are. Every file appears whole or not at all.

    Args:
        images: uint8 ``(B, H, W, C)``, as ``corrupt`` takes them.
        labels: integers ``(B,)``, not negative.
        out_dir: a new folder, or one that an earlier call with the same arguments made.
        names: corruptions.
        seed: as ``corrupt`` takes it.
        progress: told after every severity.
    """
    names = corruptions(tuple(names))
    if len(images) != len(labels) or not len(images):
        raise ValueError(
            f"images and labels must have the same length, at least 1, "
            f"got {len(images)} and {len(labels)}"
        )
    out = Path(out_dir)
    source = hashlib.blake2b(np.ascontiguousarray(images).tobytes(), digest_size=8)
    source.update(np.asarray(labels, dtype=np.int64).tobytes())
    _claim(out, {"layout": "cifar-c", "seed": seed, "source": source.hexdigest()})
    written = []
    target = np.tile(np.asarray(labels), len(SEVERITIES))
    target = target.astype(np.uint8 if target.max() < 256 else np.int64)
    if not (out / "labels.npy").is_file():
        with replacing(out / "labels.npy") as part, part.open("wb") as file:
            np.save(file, target, allow_pickle=False)
        written.append(out / "labels.npy")
    for name in names:
        path = out / f"{name}.npy"
        if not path.is_file():
            _write_array(path, images, name, seed, progress)
            written.append(path)
    return written


def write_folders(
    pictures: Sequence[str],
    read: Callable[[int], Bytes],
    out_dir: str | Path,
    names: Iterable[str] = tuple(CORRUPTIONS),
    severities: Iterable[int] = SEVERITIES,
    seed: int = 0,
    progress: Progress | None = None,
) -> int:
    """Write ``corruption/severity/class/picture.JPEG`` and return how many files were written.

    Each picture is corrupted by itself, with a seed made of ``seed`` and its name, so pictures
    that are there already are skipped and the rest come out the same. JPEG quality: 85, as
    published. Every file appears whole or not at all.

    Args:
        pictures: ``class/file`` of every picture, relative.
        read: the number of a picture to uint8 ``(H, W, 3)``.
        out_dir: a new folder, or one that an earlier call with the same arguments made.
        names: corruptions.
        severities: of 1 to 5.
        seed: not negative.
        progress: told after every 64 pictures.
    """
    names, levels = corruptions(tuple(names)), tuple(severities)
    for level in levels:
        if level not in SEVERITIES:
            raise ValueError(f"severities must be 1 to 5, got {level}")
    places = [Path(checked_name(p, "the list of pictures")).with_suffix(".JPEG") for p in pictures]
    if len(set(places)) != len(places) or not places:
        raise ValueError(f"every picture needs a name of its own, got {len(places)} pictures")
    out = Path(out_dir)
    source = hashlib.blake2b("\n".join(pictures).encode(), digest_size=8).hexdigest()
    _claim(out, {"layout": "folders", "seed": seed, "source": source})
    work = [(name, level) for name in names for level in levels]
    return sum(_write_level(pictures, places, read, out, *w, seed, progress) for w in work)


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
        raise FileNotFoundError(f"no folder at {root}; it must hold <class>/<image>")
    files = class_folders(root, folders(root), Framing(size, 256 if size == 224 else size))

    def read(row: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        return files.array(np.asarray([row]))[0]

    write_folders(list(files.names), read, out, names, severities, seed, progress)


def _write_level(
    pictures: Sequence[str],
    places: Sequence[Path],
    read: Callable[[int], Bytes],
    out: Path,
    name: str,
    level: int,
    seed: int,
    progress: Progress | None,
) -> int:
    """Write what is missing of one corruption at one severity; return how many files that was."""
    root = out / name / str(level)
    missing = [i for i, place in enumerate(places) if not (root / place).is_file()]

    def one(i: int) -> None:
        own = picture_seed(seed, pictures[i])
        copy = corrupt(read(i)[None], name, severity=level, seed=own)[0]
        write_jpeg(root / places[i], copy, optimize=True)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(missing), 64):
            list(pool.map(one, missing[start : start + 64]))
            if progress is not None:
                left = max(len(missing) - start - 64, 0)
                progress(f"{name} {level}", len(places) - left, len(places))
    return len(missing)


def _claim(out: Path, made_from: dict[str, str | int]) -> None:
    """Note in ``out`` what it is made from, or refuse if it holds something else."""
    made_from = {**made_from, "code": code_version(), "frost": variant("frost")}
    note = out / NOTE
    if note.is_file():
        try:
            found = json.loads(note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if found != made_from:
            raise ValueError(
                f"{out} was made from other images, another seed or another version; "
                "choose another folder or remove it"
            )
    elif out.is_dir() and any(out.iterdir()):
        raise ValueError(f"{out} holds other files; choose a new or empty folder")
    else:
        write_json(note, made_from)


def _write_array(
    path: Path, images: Bytes, name: str, seed: int, progress: Progress | None
) -> None:
    """Write all severities of one corruption through a file mapping: one is in memory at a time."""
    shape = (len(SEVERITIES) * len(images), *images.shape[1:])
    with replacing(path) as part:
        array = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=shape)
        for done, level in enumerate(SEVERITIES):
            rows = slice(done * len(images), (done + 1) * len(images))
            array[rows] = corrupt(images, name, severity=level, seed=seed)
            if progress is not None:
                progress(name, done + 1, len(SEVERITIES))
        array.flush()
        del array
