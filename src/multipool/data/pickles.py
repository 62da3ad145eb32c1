"""CIFAR's pickled batches, through an unpickler that knows arrays of whole numbers."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from multipool.core import brief
from multipool.data.arrays import CleanSet
from multipool.data.assembled import check_labels

_MOST_TUPLES = 100  # an array takes five; nested deeply enough, hashing them overflows the stack
_KINDS = ("u1", "i1", "i2", "i4", "i8")
_ORDERS = ("<", "|", "=", b"<", b"|", b"=")
_OPCODES = re.findall(
    r"\w+",
    "PROTO FRAME STOP MARK POP MEMOIZE PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET "
    "NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES UNICODE BINUNICODE "
    "SHORT_BINUNICODE EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 GLOBAL STACK_GLOBAL REDUCE BUILD",
)


class _Array:
    """Stands for a numpy array while it is unpickled: numpy itself trusts what it is told."""

    value: np.ndarray[Any, Any] | None = None

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError("it holds an array of an unknown kind")
        _, shape, kind, columns_first, body = state
        sizes = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
        if not sizes or not isinstance(kind, _Kind) or not isinstance(body, bytes):
            raise pickle.UnpicklingError("it holds an array that is not made of whole numbers")
        flat = np.frombuffer(body, dtype=kind.dtype)
        self.value = flat.reshape(shape, order="F" if columns_first else "C")


class _Kind:
    """Stands for numpy's dtype."""

    def __init__(self, name: object, *_: object) -> None:
        text = name.decode("latin1") if isinstance(name, bytes) else name
        if text not in _KINDS:
            raise pickle.UnpicklingError(f"it holds an array of {brief(text, 20)!r}")
        self.dtype = np.dtype(f"<{text}")

    def __setstate__(self, state: object) -> None:
        """Check the order of bytes; the rest of a state says nothing about whole numbers."""
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in _ORDERS:
            raise pickle.UnpicklingError("it holds an array in another order of bytes")


def _new_array(*_: object) -> _Array:
    return _Array()


def _encode(text: object, _: object = "latin1") -> bytes:
    """Return bytes that a text of protocol 2 stands for."""
    if not isinstance(text, str):
        raise pickle.UnpicklingError("it wants to encode what is no text")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy._core.multiarray", "_reconstruct"): _new_array,
    ("numpy", "ndarray"): "ndarray",  # only ever an argument
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,
}


# Written in Python: the one in C fills as much memory as an index in the file asks for.
class ArrayUnpickler(pickle._Unpickler):
    """Unpickles numbers, strings, containers and arrays of whole numbers; calls nothing."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]]
        for name in _OPCODES
    }
    tuples = 0

    def find_class(self, module: str, name: str) -> object:
        """Return one of the five names an array needs."""
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it wants to call {module}.{name}") from None

    def _count(self, load: Callable[[Any], None]) -> None:
        self.tuples += 1
        if self.tuples > _MOST_TUPLES:
            raise pickle.UnpicklingError("it holds more tuples than any array needs")
        load(self)


def _counted(load: Callable[[Any], None]) -> Callable[[ArrayUnpickler], None]:
    return lambda unpickler: unpickler._count(load)


for _name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
    _code = getattr(pickle, _name)[0]
    ArrayUnpickler.dispatch[_code] = _counted(ArrayUnpickler.dispatch[_code])


def load_pickle(path: Path) -> dict[bytes, object]:
    """Read the dictionary in a CIFAR batch file, or say why it is not one."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        value = ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except Exception as error:  # damaged pickles make the machine raise nearly anything
        raise ValueError(f"{path} is not a CIFAR batch file: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not a CIFAR batch file: it holds a {type(value).__name__}")
    found = {k.encode() if isinstance(k, str) else k: v for k, v in value.items()}
    return {k: v.value if isinstance(v, _Array) else v for k, v in found.items()}


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
        labels.append(
            check_labels(batch.get(label_key, []), num_classes, f"the labels of {folder / name}")
        )
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
