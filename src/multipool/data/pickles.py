"""CIFAR's pickled batches, as torchvision lays them out."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from multipool.core import brief
from multipool.data.arrays import CleanSet
from multipool.data.assembled import check_labels
from multipool.data.unpickler import ArrayUnpickler, PickledArray


def load_pickle(path: Path) -> dict[bytes, object]:
    """Read the dictionary in a CIFAR batch file, or say why it is not one."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        value = ArrayUnpickler(io.BytesIO(path.read_bytes())).load()
    except Exception as error:  # damaged pickles make the machine raise nearly anything
        raise ValueError(f"{path} is not a CIFAR batch file: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not a CIFAR batch file: it holds a {type(value).__name__}")
    found = {k.encode() if isinstance(k, str) else k: v for k, v in value.items()}
    return {k: v.value if isinstance(v, PickledArray) else v for k, v in found.items()}


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError | IndexError | TypeError | AttributeError):
        return "it is damaged"  # what the machine says of itself helps nobody
    return brief(error)


def load_batches(folder: Path, num_classes: int, split: str) -> CleanSet:
    """Read torchvision's layout: ``cifar-10-batches-py`` or ``cifar-100-python``."""
    if num_classes == 10:
        train = [f"data_batch_{i}" for i in range(1, 6)]
        files = ["test_batch"] if split == "test" else train
        label_key, meta, names_key = b"labels", "batches.meta", b"label_names"
    else:
        files = [split]
        label_key, meta, names_key = b"fine_labels", "meta", b"fine_label_names"
    images, labels = [], []
    for name in files:
        batch = load_pickle(folder / name)
        rows = batch.get(b"data")
        sound = isinstance(rows, np.ndarray) and rows.dtype == np.uint8 and len(rows) > 0
        if not isinstance(rows, np.ndarray) or not sound or rows.shape[1:] != (3072,):
            raise ValueError(f"{folder / name} must hold 'data', uint8 (N, 3072)")
        images.append(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        found = batch.get(label_key, [])
        if isinstance(found, list) and not all(isinstance(label, int) for label in found):
            raise ValueError(f"the labels of {folder / name} must be a list of whole numbers")
        labels.append(check_labels(found, num_classes, f"the labels of {folder / name}"))
        if len(labels[-1]) != len(rows):
            raise ValueError(f"{folder / name} has {len(rows)} images but {len(labels[-1])} labels")
    classes = _class_names(folder / meta, names_key, num_classes)
    return CleanSet(np.ascontiguousarray(np.concatenate(images)), np.concatenate(labels), classes)


def _class_names(meta: Path, key: bytes, num_classes: int) -> tuple[str, ...] | None:
    """Return the names of the classes, where the file that holds them is there."""
    if not meta.is_file():
        return None
    stored = load_pickle(meta).get(key)
    if not isinstance(stored, list) or len(stored) != num_classes:
        return None
    if not all(isinstance(name, bytes | str) for name in stored):
        raise ValueError(f"{meta} must hold names under '{key.decode()}', got something else")
    return tuple(n.decode(errors="replace") if isinstance(n, bytes) else n for n in stored)
