"""A look through a torch file before torch opens it; nothing in it is run."""

from __future__ import annotations

import io
import pickletools
import zipfile
from pathlib import Path
from typing import IO

_LONGEST = 10_000  # characters of a name; torch takes minutes to complain about longer ones
_MOST_BYTES = 2**28  # of the pickle alone: the numbers lie elsewhere in the file
_LEGACY_PICKLES = 5  # magic number, version, machine, state dict, keys; then come the numbers


def look_through(path: Path) -> None:
    """Raise ``ValueError`` unless the file is one or more whole pickles with names of sane length.

    Files of torch 1.6 and later are archives with one pickle, older ones begin with several.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            for _ in range(_LEGACY_PICKLES):
                _scan(file)
        return
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith("data.pkl"):
                if entry.file_size > _MOST_BYTES:
                    raise ValueError("its pickle is too large")
                _scan(io.BytesIO(archive.read(entry)))


def _scan(stream: IO[bytes]) -> None:
    for _, argument, _ in pickletools.genops(stream):
        if isinstance(argument, str | bytes) and len(argument) > _LONGEST:
            raise ValueError(f"it holds a name of {len(argument)} characters")
