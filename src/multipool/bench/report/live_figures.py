"""The figure of what ``run --diagnose`` recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipool.bench.report.figures import (
    COLOURS,
    INK,
    STYLES,
    Drawing,
    Picture,
    Table,
    blank,
    write_picture,
)
from multipool.bench.report.summary import Row, Section
from multipool.bench.run.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "diagnostics"
_PANELS = {
    "loss": "loss",
    "entropy": "entropy of\npredictions",
    "imbalance": "memory's\nimbalance",
    "memory entropy": "memory's\nentropy",
    "coverage": "memory's\ncoverage",
}


def live_pictures(section: Section, folder: Path, prefix: str = "") -> list[Picture]:
    """Draw what the runs of a section recorded, if any did; for the first such seed of each row."""
    rows = [row for row in section.rows if any(run.diagnostics for run in row.runs)]
    if not rows:
        return []
    title = "Diagnostics over time"
    return [write_picture(prefix + NAME, title, folder, *_lines(section, rows))]


def _lines(section: Section, rows: list[Row]) -> tuple[Drawing, Table]:
    table: Table = [["method", "memory", "variant", "seed", "samples", *_PANELS]]
    for row in rows:
        run = _first(row)
        for point in run.diagnostics:
            about = [row.method, row.memory, row.variant, run.seed, point["samples"]]
            values = [_number(point, name) for name in _PANELS]
            table.append([*about, *("" if v is None else round(v, 5) for v in values)])
    panels = [name for name in _PANELS if any(_told(row, name) for row in rows)]

    def draw() -> Figure:
        figure = blank(7.2, 0.6 + 1.4 * len(panels))
        drawn = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name in zip(drawn, panels, strict=True):
            for place, row in enumerate(rows):
                told = _told(row, name)
                look = {"color": COLOURS[place % len(COLOURS)], "label": row.label}
                x, y = [x for x, _ in told], [y for _, y in told]
                axes.plot(x, y, linestyle=STYLES[place % len(STYLES)], **look)
            for change in section.rows[0].runs[0].changes[:60]:
                axes.axvline(change["sample"], color=INK, alpha=0.25, linewidth=0.6, zorder=0)
            axes.set_ylabel(_PANELS[name], size=9)
            axes.margins(x=0)
        drawn[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.05), fontsize=9)
        drawn[-1].set_xlabel("samples seen")
        return figure

    return draw, table


def _first(row: Row) -> Result:
    return next(run for run in row.runs if run.diagnostics)


def _told(row: Row, name: str) -> list[tuple[int, float]]:
    """Return samples and value of every point that has a value."""
    points = _first(row).diagnostics
    values = [(point["samples"], _number(point, name)) for point in points]
    return [(samples, value) for samples, value in values if value is not None]


def _number(point: dict[str, Any], name: str) -> float | None:
    if name in ("loss", "entropy"):
        return point[name]
    return (point["memory"] or {}).get(name.removeprefix("memory "))
