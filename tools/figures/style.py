"""How all figures look: one size of type, colours that survive print and colour blindness.

They are narrow, with panels below each other, so that a phone shows them whole and in a type that
can be read.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

INK, SOFT, RULE = "#1b1f24", "#57606a", "#d0d7de"
GREY, BLUE, ORANGE, GREEN = "#8b949e", "#0b5cad", "#c4651a", "#2c7d59"
COLOURS = (BLUE, ORANGE, GREEN, "#8a4fa8", "#b8860b", "#4a9fb5", "#a33d4b", GREY)
_SETTINGS = {
    "svg.hashsalt": "multipool",  # the same names inside the file every time
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
}
mpl.rcParams.update(_SETTINGS)


def figure(height: float, width: float = 5.4) -> Figure:
    """Return an empty figure on white, in inches."""
    return Figure(figsize=(width, height), facecolor="white", layout="constrained")


def quiet(axes: Axes) -> None:
    """Take away ticks and frame of a picture."""
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def write(drawn: Figure, path: Path) -> None:
    """Write a figure as SVG without a date, so that the same numbers give the same bytes."""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (line.rstrip() for line in text.getvalue().splitlines())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
