"""What the engine has to know about a reader of files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch


@dataclass(frozen=True)
class Reader:
    """A reader, a good file for it, and what it may return for a damaged one.

    ``check`` None: nothing but what the good file gave (there is a checksum). Else it asserts what
    the reader promises about any value: a changed pixel is a picture like any other.
    """

    make: Callable[[Path], Path]  # fills a folder, returns the file to damage
    read: Callable[[Path], object]
    check: Callable[[object], None] | None = None
    specials: Callable[[bytes], Iterable[bytes]] = lambda data: ()
    named: str = ""  # what an error must name; the file, if nothing else


def same(a: object, b: object) -> bool:
    """Return whether two values are equal to the last bit, whatever they are made of."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and same(a.detach().numpy(), b.detach().numpy())
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)
