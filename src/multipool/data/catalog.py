"""What is known about each dataset: where it comes from, how large it is, under which terms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Download:
    """One file at its official place; ``goal`` is what it becomes, relative to the data folder.

    An archive is unpacked into ``into`` and gives ``goal``; any other file is moved to ``goal``.
    """

    file: str
    url: str
    md5: str
    size: int  # bytes
    goal: str
    into: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.url.startswith("https://") and not self.sha256:
            raise ValueError(f"{self.url} must be https, or its file have a SHA-256 sum")

    @property
    def checksum(self) -> str:
        """Return the strongest sum that is known, as ``kind:digits``."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}"

    @property
    def archive(self) -> bool:
        """Return whether the file has to be unpacked."""
        return self.file.endswith((".tar", ".tar.gz", ".zip"))


@dataclass(frozen=True)
class Entry:
    """A dataset: what it is, its terms, its official files, and what cannot be fetched."""

    about: str
    licence: str
    downloads: tuple[Download, ...] = ()
    manual: str = ""  # what a person has to do by hand, one sentence
    arrays: Mapping[str, str] = field(default_factory=dict)  # official .npy file -> its MD5 sum

    @property
    def size(self) -> int:
        """Return the bytes to fetch."""
        return sum(download.size for download in self.downloads)


def _entry(downloads: Sequence[Mapping[str, Any]] = (), **facts: Any) -> Entry:  # noqa: ANN401
    return Entry(**facts, downloads=tuple(Download(**item) for item in downloads))


CATALOG: dict[str, Entry] = {
    name: _entry(**facts)
    for name, facts in json.loads(
        resources.files(__package__).joinpath("catalog.json").read_text(encoding="utf-8")
    ).items()
}
