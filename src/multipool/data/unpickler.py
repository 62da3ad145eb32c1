"""An unpickler that knows numbers, texts, flat lists of them, and arrays of whole numbers.

Containers are flat because a file of a few hundred bytes can hold containers of containers that
are shared over and over: to hash, compare, print or convert what they unfold to never ends.
"""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, ClassVar

import numpy as np

from multipool.core import brief

_Load = Callable[[Any], None]
_PLAIN: dict[int, Any] = {**pickle._Unpickler.dispatch}
_MOST = 100  # tuples, calls and states, of each; an array takes five
_LONGEST_TUPLE = 16  # numpy's states have up to nine entries
_ATOMS = (int, float, str, bytes, type(None))
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


class PickledArray:
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


class _List(list[object]):
    """A list of numbers and texts; it never holds another container."""

    def append(self, value: object) -> None:
        """Add one number or text."""
        self.extend([value])

    def extend(self, values: Iterable[object]) -> None:
        """Add numbers and texts."""
        items = list(values)
        if not all(isinstance(item, _ATOMS) for item in items):
            raise pickle.UnpicklingError("it holds a list of more than numbers and texts")
        super().extend(items)

    def __setitem__(self, index: object, value: object) -> None:
        raise pickle.UnpicklingError("it holds a list that is taken for a dictionary")


class _Dict(dict[object, object]):
    """A dictionary from texts to numbers, texts, lists of them and arrays."""

    def __setitem__(self, key: object, value: object) -> None:
        if not isinstance(key, str | bytes):
            raise pickle.UnpicklingError("it holds a dictionary whose keys are no texts")
        if not isinstance(value, (*_ATOMS, _List, PickledArray)):
            raise pickle.UnpicklingError("it holds a dictionary of more than lists and arrays")
        super().__setitem__(key, value)


def _new_array(*_: object) -> PickledArray:
    return PickledArray()


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

    dispatch: ClassVar[dict[int, _Load]] = {
        getattr(pickle, name)[0]: _PLAIN[getattr(pickle, name)[0]] for name in _OPCODES
    }

    stack: list[Any]
    append: Callable[[object], None]
    pop_mark: Callable[[], list[object]]

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="bytes")
        self.used: Counter[str] = Counter()

    def find_class(self, module: str, name: str) -> object:
        """Return one of the five names an array needs."""
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it wants to call {module}.{name}") from None

    def count(self, what: str) -> None:
        """Count what only arrays need, and few of them."""
        self.used[what] += 1
        if self.used[what] > _MOST:
            raise pickle.UnpicklingError(f"it holds more {what} than any array needs")

    def empty_list(self) -> None:
        """Push an empty list."""
        self.append(_List())

    def empty_dict(self) -> None:
        """Push an empty dictionary."""
        self.append(_Dict())

    def marked_list(self) -> None:
        """Push a list of what is above the mark."""
        items = self.pop_mark()
        self.append(_List())
        self.stack[-1].extend(items)

    def marked_dict(self) -> None:
        """Push a dictionary of the keys and values above the mark."""
        items = self.pop_mark()
        self.append(_Dict())
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.stack[-1][key] = value

    def build(self) -> None:
        """Give an array or a dtype its state; nothing else has one."""
        self.count("states")
        if not isinstance(self.stack[-2], PickledArray | _Kind):
            raise pickle.UnpicklingError("it gives a state to what has none")
        _PLAIN[pickle.BUILD[0]](self)


def _call(unpickler: ArrayUnpickler) -> None:
    unpickler.count("calls")
    _PLAIN[pickle.REDUCE[0]](unpickler)


def _flat(load: _Load) -> _Load:
    """Refuse a tuple unless it is short, and what it holds are no containers but flat tuples."""

    def checked(unpickler: ArrayUnpickler) -> None:
        unpickler.count("tuples")
        load(unpickler)
        found = unpickler.stack[-1]
        inner = [item for item in found if isinstance(item, tuple)]
        deep = any(not isinstance(atom, _ATOMS) for item in inner for atom in item)
        if deep or len(found) > _LONGEST_TUPLE or any(isinstance(i, list | dict) for i in found):
            raise pickle.UnpicklingError("it holds tuples of containers, as no array does")

    return checked


_OURS: dict[str, _Load] = {
    "EMPTY_LIST": ArrayUnpickler.empty_list,
    "EMPTY_DICT": ArrayUnpickler.empty_dict,
    "LIST": ArrayUnpickler.marked_list,
    "DICT": ArrayUnpickler.marked_dict,
    "BUILD": ArrayUnpickler.build,
    "REDUCE": _call,
}
for _name, _load in _OURS.items():
    ArrayUnpickler.dispatch[getattr(pickle, _name)[0]] = _load
for _name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
    _code = getattr(pickle, _name)[0]
    ArrayUnpickler.dispatch[_code] = _flat(ArrayUnpickler.dispatch[_code])
