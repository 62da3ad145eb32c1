"""The folder of a service: one file a stream, who uses it, and for which model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from multipool.core import read_json, write_json
from multipool.core.files import replacing
from multipool.engine.saving import write_state
from multipool.serve.names import file_name, name_of_file
from multipool.serve.stream import Snapshot

try:
    import fcntl
except ImportError:  # not on Windows: there nobody keeps a second service out
    fcntl = None  # type: ignore[assignment]

_SERVICE, _LOCK, _STREAMS, _DAMAGED = "service.json", "lock", "streams", "damaged"


class Store:
    """Files of streams, each whole or not there; a damaged one is put aside, never read twice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._streams = folder / _STREAMS
        self._streams.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _hold(folder / _LOCK, folder)
        for part in self._streams.glob(".*.part"):  # what a killed service left half written
            part.unlink(missing_ok=True)

    def check_identity(self, identity: dict[str, Any]) -> None:
        """Note what this folder's streams are made of, or refuse streams of something else."""
        path = self.folder / _SERVICE
        if path.is_file():
            found = read_json(path)
            known = found if isinstance(found, dict) else {}
            for name, value in identity.items():
                if known.get(name) != value:
                    raise ValueError(
                        f"{self.folder} holds streams with {name} {known.get(name)!r}, this "
                        f"service has {value!r}; choose another --state-dir"
                    )
        else:
            write_json(path, identity)

    def path(self, name: str) -> Path:
        """Return where a stream's state lies."""
        return self._streams / file_name(name)

    def names(self) -> list[str]:
        """Return the streams that have a file."""
        found = (name_of_file(entry.name) for entry in os.scandir(self._streams))
        return sorted(name for name in found if name is not None)

    def has(self, name: str) -> bool:
        """Tell whether a stream has a file."""
        return self.path(name).is_file()

    def write(self, name: str, snapshot: Snapshot) -> None:
        """Put a state on the disk; until it is there, the one before stays."""
        write_state(self.path(name), snapshot.state, snapshot.recipe)

    def write_file(self, name: str, content: bytes) -> None:
        """Put the content of a file on the disk; until it is there, the one before stays."""
        with replacing(self.path(name), private=True) as part:
            part.write_bytes(content)

    def remove(self, name: str) -> None:
        """Forget a stream."""
        self.path(name).unlink(missing_ok=True)

    def set_aside(self, name: str) -> Path:
        """Move a damaged file out of the way, where somebody may look at it; return where."""
        aside = self.folder / _DAMAGED / file_name(name)
        aside.parent.mkdir(exist_ok=True, mode=0o700)
        self.path(name).replace(aside)
        return aside

    def close(self) -> None:
        """Let another service have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _hold(path: Path, folder: Path) -> int | None:
    """Return a descriptor that holds the folder until the process ends, however it ends."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise ValueError(
                f"{folder} is in use by another service; stop it or choose another --state-dir"
            ) from None
    return descriptor
