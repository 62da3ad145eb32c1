"""Where datasets and caches lie on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder(chosen: str | Path | None, dataset: str) -> Path:
    """Return the folder with the user's datasets: ``chosen``, else ``MULTIPOOL_DATA``."""
    place = chosen or os.environ.get("MULTIPOOL_DATA")
    if not place:
        raise FileNotFoundError(
            f"{dataset} needs a data folder: pass --data-dir or data_dir=, or set MULTIPOOL_DATA; "
            "'multipool data list' says what belongs there"
        )
    folder = Path(place).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} is not a folder; --data-dir, data_dir= or MULTIPOOL_DATA must name the one "
            f"with the data of {dataset!r}"
        )
    return folder


def cache_folder(chosen: str | Path | None = None) -> Path:
    """Return the folder for files that can be made again: ``chosen``, else ``MULTIPOOL_CACHE``.

    Without either it is ``multipool`` in the user's cache folder. It is not created here.
    """
    place = chosen or os.environ.get("MULTIPOOL_CACHE")
    if place:
        return Path(place).expanduser()
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "multipool"


def first_existing(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the first of ``names`` that is there, as a path in ``folder``.

    >>> first_existing(Path("/nowhere"), ("a", "b")) is None
    True
    """
    return next((folder / name for name in names if (folder / name).exists()), None)
