"""Corrupted copies of clean images, made once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from torch import Tensor

from multipool.core import numpy_generator, replacing
from multipool.data import corruptions
from multipool.data.arrays import CleanSet, gather, load_npy
from multipool.data.corruptions import corrupt, frost_source
from multipool.data.protocol import Bytes, Ints


class CorruptedCopies:
    """Corrupted copies of a clean set, ``(domain, severity, rows)`` to images.

    Each copy is one ``.npy`` in the cache, uint8 ``(N, H, W, 3)``, mapped into memory, so parallel
    runs share it. Its folder is named after everything it depends on: the clean bytes, the
    corruption code, the seed. A damaged copy is made again.
    """

    def __init__(self, clean: Callable[[], CleanSet], folder: Path, seed: int = 0) -> None:
        self._clean = clean
        self._folder = folder
        self._seed = seed
        self._open = cache(self._array)

    def __call__(self, domain: str, severity: int, rows: Ints) -> Tensor:
        """Return rows of a copy, uint8 ``(B, 3, H, W)``; the copy is made if it is not there."""
        return gather(self._open(domain, severity), rows)

    def path(self, domain: str, severity: int) -> Path:
        """Return where the copy is kept."""
        key = f"{self._clean().digest}-{code_version()}-seed{self._seed}"
        return self._folder / key / f"{variant(domain)}-{severity}.npy"

    def _array(self, domain: str, severity: int) -> Bytes:
        clean, path = self._clean().images, self.path(domain, severity)
        if path.is_file():
            try:
                array = load_npy(path)
                if array.shape == clean.shape and array.dtype == np.uint8:
                    return array  # type: ignore[return-value]
            except ValueError:
                pass  # damaged: made again below
        try:
            self._make(clean, domain, severity, path)
        except OSError as error:
            raise not_kept(path, error) from None
        return load_npy(path)  # type: ignore[return-value]

    def _make(self, clean: Bytes, domain: str, severity: int, path: Path) -> None:
        copy = corrupt(clean, domain, severity=severity, seed=self._seed)
        with replacing(path) as part, part.open("wb") as file:
            np.save(file, copy, allow_pickle=False)


def variant(domain: str) -> str:
    """Return the name under which a corruption is kept: frost depends on what is installed.

    >>> variant("fog")
    'fog'
    """
    photographs = domain == "frost" and frost_source() == "photographs"
    return f"{domain}-photographs" if photographs else domain


def picture_seed(seed: int, name: str) -> int:
    """Return the seed of one picture: that of copies made on demand, so the two are equal."""
    return int(numpy_generator(seed, name).integers(2**31))


def not_kept(path: Path, error: OSError) -> ValueError:
    """Return the sentence about a copy for which there is no room, to be raised."""
    return ValueError(
        f"cannot keep the corrupted copy {path}: {error.strerror or error}; "
        "free some space or set MULTIPOOL_CACHE"
    )


@cache
def code_version() -> str:
    """Return a fingerprint of the code that corrupts, so that copies made by older code are left.

    >>> len(code_version())
    8
    """
    total = hashlib.blake2b(digest_size=4)
    for file in sorted(Path(str(corruptions.__file__)).parent.rglob("*.*")):
        if file.suffix in (".py", ".json"):
            total.update(file.read_bytes())
    return total.hexdigest()
