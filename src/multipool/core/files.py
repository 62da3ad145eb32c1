"""Files that are either the old one or the new one, whatever happens in between."""

from __future__ import annotations

import csv
import glob
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import safetensors.numpy
import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from multipool.core.words import brief


@contextmanager
def replacing(path: str | Path, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it takes its place in one step.

    The content reaches the disk before the name does, so a kill or a power cut leaves the old
    file or the new one. On an error the temporary file is removed and ``path`` is untouched.
    Who may read the file is the umask's decision; a ``private`` one is its owner's alone.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{path.name}.{secrets.token_hex(8)}.part"
    mode = 0o600 if private else 0o666  # the system takes away what the umask forbids
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def discard_parts(path: str | Path) -> None:
    """Remove what writers of ``path`` that were killed left beside it; nobody may be writing it."""
    path = Path(path)
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically; bytes of a file name that are no text are escaped."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_csv(path: str | Path, rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV to ``path`` atomically; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(path, text.getvalue())


def write_json(path: str | Path, value: object) -> None:
    """Write ``value`` as readable JSON to ``path`` atomically; NaN is refused."""
    write_text(path, json.dumps(value, indent=2, sort_keys=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> object:
    """Return the content of a JSON file, or say what is wrong; NaN is refused here, too."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise FileNotFoundError(f"no file at {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable as JSON: {brief(error)}") from None


def _refuse(word: str) -> object:
    raise ValueError(f"it holds {word}, which is not JSON")


def write_tensors(
    path: str | Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    private: bool = False,
) -> None:
    """Write one safetensors file atomically; ``metadata`` goes into its header.

    What holds users' images is written ``private``: nobody but the owner reads it.
    """
    content = _content(tensors, dict(metadata or {}))
    with replacing(path, private) as part:
        # Not save_file: killed, it leaves a file of its own that nobody would find again.
        part.write_bytes(content)


def _content(tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Return a safetensors file; of a state of many small tensors numpy's arrays take half as long.

    >>> import torch
    >>> flat = {"a": torch.ones(2, 2).t(), "b": torch.tensor(3)}
    >>> whole = {name: tensor.contiguous() for name, tensor in flat.items()}
    >>> _content(flat, {"by": "x"}) == safetensors.torch.save(whole, metadata={"by": "x"})
    True
    """
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        arrays = {name: tensor.numpy() for name, tensor in flat.items()}
    except TypeError:  # of a type that numpy lacks, like bfloat16
        # Copies: safetensors refuses views that share storage.
        copies = {name: tensor.clone() for name, tensor in flat.items()}
        return safetensors.torch.save(copies, metadata=metadata)
    return safetensors.numpy.save(arrays, metadata=metadata)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the header's metadata of a safetensors file, or say what is wrong."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            # Copies: the tensors of safetensors are the file itself, and whoever writes over it
            # would change them, or kill the process by making it shorter.
            names = list(file.keys())
            return {name: file.get_tensor(name).clone() for name in names}, metadata
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {brief(error)}") from None
