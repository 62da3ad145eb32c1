"""Every table and figure of the paper by its id: what it is made of and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from multipool.bench.paper import derive
from multipool.bench.paper.cell import Cell
from multipool.bench.paper.diagnoses import (
    Draw,
    Drawn,
    content_late,
    contents,
    quality,
    stream_modes,
)
from multipool.bench.paper.drawings import draw_clusters, draw_scaling
from multipool.bench.paper.published import Published, published
from multipool.bench.paper.setting import Setting
from multipool.core import unknown

Derive = Callable[[list[Cell], Published], list[Cell]]
Look = Callable[[Setting, Path, Callable[[str], None] | None], Drawn]


@dataclass(frozen=True)
class Target:
    """How one id is made: from runs (``derive``) or by looking at memories (``look``)."""

    derive: Derive = derive.as_they_are
    look: Look | None = None
    per_round: bool = False
    picture: Callable[[Sequence[Cell], Path, str], list[Path]] | None = None

    def draw(self, cells: Sequence[Cell]) -> Draw | None:
        """Return how to draw cells made from runs; None: a table has no picture."""
        picture = self.picture
        return None if picture is None else lambda folder, face: picture(cells, folder, face)


TARGETS: Mapping[str, Target] = {
    "table1": Target(derive.methods),
    "table2": Target(),
    "table3": Target(derive.descriptors),
    "table4": Target(derive.consolidations),
    "table5": Target(),
    "fig1a": Target(look=stream_modes),
    "fig1b": Target(look=content_late),
    "fig3": Target(picture=draw_scaling),
    "fig4": Target(look=quality),
    "tableS1": Target(per_round=True),
    "tableS2": Target(derive.distances),
    "tableS3": Target(per_round=True),
    "tableS4": Target(per_round=True),
    "figS1": Target(picture=draw_clusters),
    "figS2": Target(look=contents),
}
ALL = "all"


def chosen(names: Sequence[str]) -> list[str]:
    """Return the ids meant by names, each once; ``all`` is every one.

    >>> chosen(["table2", "table2"])
    ['table2']
    """
    found: dict[str, None] = {}
    for name in names:
        if name == ALL:
            found |= dict.fromkeys(TARGETS)
        elif name in TARGETS:
            found[name] = None
        else:
            raise unknown("table or figure", name, [*TARGETS, ALL])
    return list(found)


def title(name: str) -> str:
    """Return what an id is, in a line."""
    return published(name).title
