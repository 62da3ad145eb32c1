"""Make the figures of the documentation again: ``python tools/figures/draw.py [NAME]...``.

They lie in ``docs/figures``. ``front`` and those of the paper are drawn from ``docs/data``; the
others come from the embedded dataset and take a few minutes on a CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import paper
import runs
import streams
from matplotlib.figure import Figure
from style import write

HOME = Path(__file__).resolve().parents[2] / "docs" / "figures"
FIGURES: dict[str, Callable[[], Figure]] = {
    "drift": streams.drift,
    "statistics": runs.statistics,
    "correlation": streams.correlation,
    "memory": streams.memory,
    "pools": runs.pools,
    "decoder": streams.decoder,
    "guard": runs.guard,
    "front": runs.front,
    "pool_size": paper.pool_size,
    "most_clusters": paper.most_clusters,
}


def main(names: list[str]) -> None:
    """Draw the named figures, or all."""
    for name in names or FIGURES:
        if name not in FIGURES:
            raise SystemExit(f"unknown figure {name!r}; choose of: {', '.join(FIGURES)}")
        write(FIGURES[name](), HOME / f"{name}.svg")
        print(HOME / f"{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
