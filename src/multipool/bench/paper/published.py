"""The paper's own numbers, a file for every table and figure: rows, columns, and what to know.

The numbers are those of *One Pool Is Not Enough* (arXiv 2603.21135), as printed. Figures hold what
the text says about them, since the paper draws them without numbers. Notes say where the paper
contradicts itself and where it leaves a choice.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Published:
    """One table or figure as printed."""

    label: str  # of the paper's source
    title: str
    rows: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...]

    def value(self, row: str, column: str) -> float | None:
        """Return a printed number; None where the paper has none.

        >>> published("table2").value("PeTTA", "error")
        35.8
        """
        return self.rows.get(row, {}).get(column)


@functools.cache
def published(name: str) -> Published:
    """Return the paper's numbers for an id of ``multipool reproduce``."""
    text = resources.files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    content = json.loads(text)
    return Published(
        label=content["label"],
        title=content["title"],
        rows=content["rows"],
        notes=tuple(content["notes"]),
    )
