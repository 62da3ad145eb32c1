"""A file that names a model's classes: all of them in its order, or some with their numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from multipool.core import brief


@dataclass(frozen=True)
class ClassList:
    """Class names by label, and which outputs of the model they are; None: all, in this order."""

    names: tuple[str, ...]
    outputs: tuple[int, ...] | None = None


def read_class_list(path: str | Path | None) -> ClassList | None:
    """Read one class a line: its name, or its number among the model's outputs and its name.

    The first kind lists every class of the model in its order. The second, ``207 retriever``, lists
    some: the model then answers with those alone.
    """
    if path is None:
        return None
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise FileNotFoundError(
            f"no readable list of classes at {path}; it must be a text file, one class a line"
        ) from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    numbered = [re.fullmatch(r"([0-9]{1,9})\s+(\S.*)", line) for line in lines]
    if lines and all(numbered):
        names = tuple(match[2] for match in numbered if match)
        outputs = tuple(int(match[1]) for match in numbered if match)
        _check_distinct(path, "number", tuple(map(str, outputs)))
    else:
        names, outputs = tuple(lines), None
    _check_distinct(path, "class", names)
    if len(names) < 2:
        raise ValueError(f"{path} must name at least 2 classes, one a line, got {len(names)}")
    return ClassList(names, outputs)


def _check_distinct(path: Path, what: str, values: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{path} must name every {what} once, got {brief(value)} twice")
        seen.add(value)
