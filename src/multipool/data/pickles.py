"""CIFAR's pickled batches, through an unpickler that knows arrays and nothing else."""

from __future__ import annotations

import codecs
import pickle
from pathlib import Path

import numpy as np

from multipool.data.arrays import CleanSet
from multipool.data.assembled import check_labels

_ARRAY = np.empty(0).__reduce__()[0]  # the function that rebuilds an array; its home has moved
ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): codecs.encode,
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickles numbers, strings, containers and numpy arrays; any other name is refused."""

    def find_class(self, module: str, name: str) -> object:
        """Return one of the five names an array needs."""
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it wants to call {module}.{name}") from None


def load_pickle(path: Path) -> dict[bytes, object]:
    """Read the dictionary in a CIFAR batch file, or say why it is not one."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        with path.open("rb") as file:
            value = ArrayUnpickler(file, encoding="bytes").load()
    except Exception as error:  # damaged pickles make the machine raise nearly anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} is not a CIFAR batch file: {reason}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not a CIFAR batch file: it holds a {type(value).__name__}")
    return {k.encode() if isinstance(k, str) else k: v for k, v in value.items()}


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
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape[1:] != (3072,):
            raise ValueError(f"{folder / name} must hold 'data', uint8 (N, 3072)")
        images.append(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels.append(
            check_labels(batch.get(label_key, []), num_classes, f"the labels of {folder / name}")
        )
        if len(labels[-1]) != len(rows):
            raise ValueError(f"{folder / name} has {len(rows)} images but {len(labels[-1])} labels")
    classes = None
    if (folder / meta).is_file():
        stored = load_pickle(folder / meta).get(names_key)
        if isinstance(stored, list) and len(stored) == num_classes:
            classes = tuple(n.decode() if isinstance(n, bytes) else str(n) for n in stored)
    return CleanSet(np.ascontiguousarray(np.concatenate(images)), np.concatenate(labels), classes)
