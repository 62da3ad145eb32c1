"""Stop a run anywhere and continue it later as if it had never stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from multipool.core import read_tensors, write_tensors
from multipool.engine.saving import check_unaltered, check_version, digest

FILE = "checkpoint.safetensors"
START_AGAIN = "to start again, use another --out or empty this one"
_ADAPTER, _TALLY = "adapter.", "tally."
_VERSION = 1
_HEADER = ("batches", "settings", "notes", "version")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two batches: one file, so its parts cannot disagree."""

    batches: int  # done so far
    settings: Mapping[str, Any]
    adapter: Mapping[str, Tensor]
    tally: Mapping[str, Tensor]
    notes: Mapping[str, Any]  # what the runner keeps on the host: traces and seconds

    def write(self, folder: str | Path) -> None:
        """Write the checkpoint into ``folder``, in one step."""
        tensors = {_ADAPTER + name: value for name, value in self.adapter.items()}
        tensors.update({_TALLY + name: value for name, value in self.tally.items()})
        values = (self.batches, self.settings, self.notes, _VERSION)
        metadata = {k: json.dumps(v) for k, v in zip(_HEADER, values, strict=True)}
        check = digest(tensors, _words(metadata))
        write_tensors(Path(folder) / FILE, tensors, {**metadata, "sha256": check}, private=True)


def read(folder: str | Path, settings: Mapping[str, Any]) -> Checkpoint | None:
    """Return the checkpoint in ``folder``; None without one; refuse one of other settings.

    Refused with a sentence, too: one that was altered, or written by a later version.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    tensors, metadata = read_tensors(path)
    try:
        header = {key: json.loads(metadata[key]) for key in _HEADER}
    except (KeyError, ValueError, RecursionError):
        raise ValueError(f"{path} is not a checkpoint of multipool run") from None
    advice = f"continue with the release that wrote it; {START_AGAIN}"
    check_version(path, header["version"], _VERSION, advice)
    check_unaltered(path, tensors, _words(metadata), metadata, f"; {START_AGAIN}")
    check_same(path, header["settings"], settings)
    return Checkpoint(
        batches=int(header["batches"]),
        settings=header["settings"],
        adapter=part(tensors, _ADAPTER),
        tally=part(tensors, _TALLY),
        notes=header["notes"],
    )


def check_same(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise one sentence that names the first setting in which two runs differ."""
    plain = json.loads(json.dumps(dict(wanted)))
    for key in sorted(plain.keys() | found.keys()):
        if plain.get(key) != found.get(key):
            raise ValueError(
                f"{path} belongs to a run with {key} = {found.get(key)!r}, this one has "
                f"{plain.get(key)!r}; {START_AGAIN}"
            )


def other_weights(what: str | Path, name: str) -> ValueError:
    """Return the sentence about something that another model made, to be raised."""
    return ValueError(f"{what} was made with other weights than {name} holds now; {START_AGAIN}")


def _words(metadata: Mapping[str, str]) -> str:
    """Return the header as the checksum covers it."""
    return "\n".join(metadata[key] for key in _HEADER)


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
