"""Figures of a section: PNG and SVG with the data beside them as CSV.

Colours are Okabe and Ito's, which most colour-blind people can tell apart; line styles and printed
numbers say the same once more, so a grey copy loses nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipool.bench.report.summary import NO_MEMORY, Row, Section
from multipool.core import replacing, write_csv, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
# Stand for the page's own colours in inline figures, so that they follow light and dark mode.
INK, RULE = "#010203", "#a0a1a2"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: smaller, and readable by machines
    "svg.hashsalt": "multipool",  # equal runs give equal files
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "text.parse_math": False,  # a domain may be called "$5"
}


@dataclass(frozen=True)
class Picture:
    """A figure as inline SVG, with the files that were written for it."""

    name: str
    title: str
    svg: str
    files: tuple[Path, ...]


def pictures(section: Section, folder: Path, prefix: str = "") -> list[Picture]:
    """Draw everything there is to draw of a section into ``folder``."""
    drawn = [write_picture(prefix + "errors", "Mean error", folder, *_errors(section))]
    if section.domains:
        found = _domains(section)
        drawn.append(write_picture(prefix + "domains", "Error by domain", folder, *found))
    if any(len(run.curve) > 1 for row in section.rows for run in row.runs):
        drawn.append(write_picture(prefix + "curves", "Error over time", folder, *_curves(section)))
    if any(_traced(row) for row in section.rows):
        drawn.append(write_picture(prefix + "memory", "Memory over time", folder, *_sizes(section)))
    return drawn


Table = list[list[object]]
Drawing = Callable[[], "Figure"]


def write_picture(name: str, title: str, folder: Path, draw: Drawing, table: Table) -> Picture:
    """Write one figure as PNG and SVG and its data as CSV; return it for a page."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    files = tuple(folder / f"{name}.{kind}" for kind in ("svg", "png", "csv"))
    with matplotlib.rc_context(_SETTINGS):
        figure = draw()
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        with replacing(files[1]) as part:
            figure.savefig(part, format="png", dpi=160, facecolor="white")
    svg = text.getvalue()
    write_text(files[0], svg)
    write_csv(files[2], table)
    return Picture(name, title, svg[svg.index("<svg") :], files)


def blank(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def faced(draw: Drawing, face: str) -> Drawing:
    """Return the drawing with a title that says at what scale it was made; "" changes nothing."""

    def drawn() -> Figure:
        figure = draw()
        if face:
            figure.suptitle(face, size=9)
        return figure

    return drawn


def _errors(section: Section) -> tuple[Drawing, Table]:
    """Return one dot a row, with a bar of one standard deviation where there are seeds."""
    rows = section.rows
    table: Table = [["method", "memory", "variant", "seeds", "error", "std"]]
    for row in rows:
        std = "" if row.std is None else round(row.std, 4)
        table.append([row.method, row.memory, row.variant, len(row.runs), round(row.mean, 4), std])

    def draw() -> Figure:
        figure = blank(6.4, 0.9 + 0.3 * len(rows))
        axes = figure.add_subplot()
        for y, row in enumerate(rows):
            colour, marker = _colour(section, row), _MARKERS[_place(section, row) % len(_MARKERS)]
            axes.errorbar(row.mean, y, xerr=row.std, fmt=marker, color=colour, capsize=3)
            right = (row.mean + (row.std or 0.0), y)
            axes.annotate(f"{row.mean:.2f}", right, (7, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("error (%), lower is better")
        axes.grid(axis="x")
        axes.margins(x=0.12)
        return figure

    return draw, table


def _domains(section: Section) -> tuple[Drawing, Table]:
    """Return the heat map: a row of the section by a domain, with the number in each cell."""
    rows, domains = section.rows, section.domains
    values = [[row.domain_error(domain) for domain in domains] for row in rows]
    table: Table = [["method", "memory", "variant", *domains]]
    for row, errors in zip(rows, values, strict=True):
        told = ["" if e is None else round(e, 4) for e in errors]
        table.append([row.method, row.memory, row.variant, *told])

    def draw() -> Figure:
        import numpy as np

        grid = np.array([[np.nan if e is None else e for e in errors] for errors in values])
        figure = blank(max(4.5, 1.8 + 0.55 * len(domains)), 1.6 + 0.32 * len(rows))
        axes = figure.add_subplot()
        picture = axes.imshow(grid, cmap="cividis_r", aspect="auto")
        _cell_numbers(axes, grid)
        names = [domain.replace("_", " ") for domain in domains]
        axes.set_xticks(range(len(domains)), names, rotation=40, ha="right")
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.spines[:].set_visible(False)
        figure.colorbar(picture, ax=axes, label="error (%)", pad=0.01)
        return figure

    return draw, table


def _cell_numbers(axes: Axes, grid: Any) -> None:  # noqa: ANN401
    import numpy as np

    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    for (y, x), value in np.ndenumerate(grid):
        if not np.isnan(value):
            ink = "white" if value > middle else "black"
            axes.text(x, y, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=8)


def _curves(section: Section) -> tuple[Drawing, Table]:
    """Return error over time, one panel a method, the domain changes marked."""
    table: Table = [["method", "memory", "variant", "seed", "samples", "error"]]
    for row in section.rows:
        for run in row.runs:
            for point in run.curve:
                about = [row.method, row.memory, row.variant, run.seed]
                table.append([*about, point["samples"], point["error"]])

    def draw() -> Figure:
        found = list(dict.fromkeys(row.method for row in section.rows))
        figure = blank(7.2, 0.6 + 1.9 * len(found))
        panels = figure.subplots(len(found), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, method in zip(panels, found, strict=True):
            for row in (row for row in section.rows if row.method == method):
                middles, errors = _mean_curve(row)
                look = STYLES[_place(section, row) % len(STYLES)]
                colour = _colour(section, row)
                memory = "no memory" if row.memory == NO_MEMORY else row.memory
                name = f"{memory} {row.variant}".strip()
                axes.plot(middles, errors, linestyle=look, color=colour, label=name)
            axes.set_ylabel("error (%)")
            axes.grid(axis="y")
            axes.margins(x=0)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.05), fontsize=9, title=method)
        _mark_changes(list(panels), section)
        panels[-1].set_xlabel("samples seen")
        return figure

    return draw, table


def _mean_curve(row: Row) -> tuple[list[float], list[float]]:
    """Return the middle of each stretch and the mean error over seeds there."""
    points = min(len(run.curve) for run in row.runs)
    ends = [point["samples"] for point in row.runs[0].curve[:points]]
    middles = [(end + start) / 2 for start, end in zip([0, *ends], ends, strict=False)]
    seeds = len(row.runs)
    errors = [sum(run.curve[i]["error"] for run in row.runs) / seeds for i in range(points)]
    return middles, errors


def _mark_changes(panels: Sequence[Axes], section: Section) -> None:
    changes = section.rows[0].runs[0].changes
    if not 1 < len(changes) <= 60:
        return
    for axes in panels:
        for change in changes:
            axes.axvline(change["sample"], color=INK, alpha=0.35, linewidth=0.8, zorder=0)
    if len(changes) <= 20:
        for change in changes:
            name = " " + change["domain"].replace("_", " ")
            top = panels[0].get_xaxis_transform()
            panels[0].text(
                change["sample"], 1.02, name, transform=top, rotation=35, ha="left", fontsize=8
            )


def _sizes(section: Section) -> tuple[Drawing, Table]:
    """Return the samples held by each cluster over time, for the first seed of each row."""
    rows = [row for row in section.rows if _traced(row)]
    table: Table = [["method", "memory", "variant", "seed", "samples", "cluster", "size"]]
    for row in rows:
        run = row.runs[0]
        assert run.memory is not None
        for point in run.memory["trace"]:
            for cluster, size in enumerate(point["sizes"]):
                about = [row.method, row.memory, row.variant, run.seed]
                table.append([*about, point["samples"], cluster, size])

    def draw() -> Figure:
        across = min(3, len(rows))
        down = -(-len(rows) // across)
        figure = blank(max(4.8, 2.4 * across), 0.5 + 1.6 * down)  # one panel is no poster
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for axes, row in zip(panels.flat, rows, strict=False):
            _stack(axes, row)
        for axes in panels.flat[len(rows) :]:
            axes.set_visible(False)
        figure.supylabel("samples held", fontsize=9)
        figure.supxlabel("samples seen", fontsize=9)
        return figure

    return draw, table


def _stack(axes: Axes, row: Row) -> None:
    """Draw the clusters of one run on top of each other, oldest at the bottom."""
    memory = row.runs[0].memory
    assert memory is not None
    trace = memory["trace"]
    most = max(1, *(len(point["sizes"]) for point in trace))  # a bank may stay empty
    layers = [[(p["sizes"] + [0] * most)[k] for p in trace] for k in range(most)]
    seen = [point["samples"] for point in trace]
    shades = [COLOURS[k % len(COLOURS)] for k in range(most)]
    axes.stackplot(seen, *layers, colors=shades, edgecolor="white", linewidth=0.7, step="pre")
    axes.set_title(row.label, fontsize=9)
    axes.margins(x=0)


def _traced(row: Row) -> bool:
    return row.runs[0].memory is not None and len(row.runs[0].memory["trace"]) > 1


def _place(section: Section, row: Row) -> int:
    """Return the position of a row's memory and variant among those of the section."""
    kinds = list(dict.fromkeys((r.memory, r.variant) for r in section.rows))
    return kinds.index((row.memory, row.variant))


def _colour(section: Section, row: Row) -> str:
    return COLOURS[_place(section, row) % len(COLOURS)]
