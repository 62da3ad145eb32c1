"""Archives: read or extracted without ever leaving their folder, and only up to a size."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from multipool.core import brief
from multipool.data.files import checked_name

# Datasets are packed pictures and arrays, which hardly shrink; a bomb grows a thousandfold.
MAX_RATIO = 20
FREE_BYTES = 64 * 2**20


def members(
    archive: Path, wanted: Callable[[str], bool] = lambda name: True, limit: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the wanted files of a ``.tar``, ``.tar.gz`` or ``.zip``.

    Refused with one sentence: a name that leaves its folder, a link or device, more than ``limit``
    bytes in all (None: 20 times the archive and 64 MB), an archive that cannot be read.
    """
    for name, stream, size in _opened(archive, limit):
        if wanted(name):
            try:
                content = stream.read(size)
            except Exception as error:  # damaged archives make readers raise nearly anything
                raise _unreadable(archive, error) from None
            yield name, content


def extract(archive: Path, folder: Path, limit: int | None = None) -> list[Path]:
    """Extract an archive into ``folder``, whole or not at all; return its top-level entries.

    Everything is unpacked beside its goal first and moved at the end. What is there already is
    never replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as name:
        hall = Path(name)
        for member, stream, _ in _opened(archive, limit):
            goal = hall / member
            try:
                goal.parent.mkdir(parents=True, exist_ok=True)
                with goal.open("wb") as file:
                    shutil.copyfileobj(stream, file, 2**20)
            except Exception as error:
                raise _unreadable(archive, error) from None
        entries = sorted(hall.iterdir())
        for entry in entries:
            if (folder / entry.name).exists():
                raise ValueError(
                    f"{folder / entry.name} is there already; move it away to unpack {archive.name}"
                )
        return [entry.rename(folder / entry.name) for entry in entries]


def unpacked_limit(archive: Path) -> int:
    """Return the most bytes that an honest archive of this size unpacks to."""
    return MAX_RATIO * archive.stat().st_size + FREE_BYTES


def _opened(archive: Path, limit: int | None) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield (checked name, open stream, size) of every file in the archive."""
    if not archive.is_file():
        raise FileNotFoundError(f"no archive at {archive}")
    if limit is None:
        limit = unpacked_limit(archive)
    total = 0
    for name, stream, size in _entries(archive):
        total += size
        if total > limit:
            raise ValueError(
                f"{archive} would unpack to more than {limit // 2**20} MB; it is not unpacked"
            )
        yield name, stream, size


def _entries(archive: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    inside = _zip_entries if zipfile.is_zipfile(archive) else _tar_entries
    try:
        yield from inside(archive)
    except Exception as error:
        raise _unreadable(archive, error) from None


def _zip_entries(archive: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    with zipfile.ZipFile(archive) as file:
        entries = file.infolist()
        names = [checked_name(entry.filename, str(archive)) for entry in entries]
        for entry, name in zip(entries, names, strict=True):
            if (entry.external_attr >> 16) & 0o170000 == 0o120000:
                raise ValueError(f"{archive} holds a link, {brief(name)!r}; it is not unpacked")
            if not entry.filename.endswith("/"):
                with file.open(entry) as stream:
                    yield name, stream, entry.file_size


def _tar_entries(archive: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    with tarfile.open(archive, "r:*") as file:
        for entry in file:
            name = checked_name(entry.name, str(archive))
            if entry.isdir():
                continue
            stream = file.extractfile(entry) if entry.isreg() else None
            if stream is None:
                raise ValueError(
                    f"{archive} holds a link or device, {brief(name)!r}; it is not unpacked"
                )
            with stream:
                yield name, stream, entry.size


def _unreadable(archive: Path, error: Exception) -> ValueError:
    if isinstance(error, ValueError) and str(error).startswith(str(archive)):
        return error  # refused by us, in a sentence
    return ValueError(f"{archive} is not a complete archive ({brief(error)}); fetch it again")
