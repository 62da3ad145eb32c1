"""Figures of diagnostics: modes of a stream, quality of memories, what a run recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    faced,
    write_picture,
)
from multipool.bench.report.summary import Row, Section
from multipool.bench.run.diagnose import Snapshot, Watched
from multipool.bench.run.result import Result
from multipool.diagnostics import Clusterability, Plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUMBERS = {
    "imbalance": "imbalance (lower is better)",
    "entropy": "entropy (nats)",
    "coverage": "coverage",
}
NAME = "diagnostics"
_PANELS = {
    "loss": "loss",
    "entropy": "entropy of\npredictions",
    "imbalance": "memory's\nimbalance",
    "memory entropy": "memory's\nentropy",
    "coverage": "memory's\ncoverage",
}
_MOST_POINTS = 2000  # of a stream in one panel
_MARKERS = "oD^vPX"


def draw_stream(found: Sequence[Clusterability], folder: Path, face: str = "") -> Picture:
    """Draw in how many windows each K* was found, a panel a descriptor (Fig. 1a).

    ``face`` is a line of its own above the figure.
    """
    table: Table = [["descriptor", "covariance", "window", "first sample", "K*"]]
    for one in found:
        for first, best in zip(one.starts, one.best, strict=True):
            table.append([one.descriptor, one.covariance, one.window, first, best])

    def draw() -> Figure:
        figure = blank(2.6 * len(found), 2.6)
        panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        most = max(len(row) for one in found for row in one.bic)
        for place, (axes, one) in enumerate(zip(panels, found, strict=True)):
            counts = one.histogram
            axes.bar(list(counts), list(counts.values()), color=COLOURS[place % len(COLOURS)])
            axes.axvline(one.mean, color=INK, linestyle="--", linewidth=1)
            axes.set_title(f"{one.descriptor.replace('_', ' ')}: mean K* {one.mean:.1f}", size=10)
            axes.set_xlim(0.4, most + 0.6)
            axes.set_xlabel("K*, by BIC")
            axes.yaxis.get_major_locator().set_params(integer=True)
        panels[0].set_ylabel(f"windows of {found[0].window}")
        return figure

    return write_picture("fig1a", "Modes of the stream", folder, faced(draw, face), table)


def draw_memory(
    watched: Sequence[Watched], folder: Path, face: str = "", only: str | None = None
) -> list[Picture]:
    """Draw quality over time (Fig. 4) and, where there are snapshots, what was held.

    ``face`` is a line of its own above each figure; ``only`` names one of them.
    """
    title = "What the memories hold, in descriptor space"
    made = {"fig4": ("Memory quality over time", _quality(watched))}
    if all(one.snapshots for one in watched):
        made["figS2"] = (title, _contents(watched, slice(None)))
        made["fig1b"] = (title, _contents(watched, slice(-1, None)))
    return [
        write_picture(name, title, folder, faced(draw, face), table)
        for name, (title, (draw, table)) in made.items()
        if only in (None, name)
    ]


def _quality(watched: Sequence[Watched]) -> tuple[Drawing, Table]:
    table: Table = [["memory", "samples", *NUMBERS]]
    for one in watched:
        for point in one.trace:
            numbers = point.quality.as_dict()
            table.append([one.name, point.samples, *(round(numbers[n], 4) for n in NUMBERS)])

    def draw() -> Figure:
        panels = {
            label: {one.name: one.over_time(number) for one in watched}
            for number, label in NUMBERS.items()
        }
        changes = watched[0].changes
        figure = _over_time(5.6, panels, changes if len(changes) <= 60 else ())
        figure.axes[0].set_yscale("log")
        return figure

    return draw, table


def _over_time(
    height: float,
    panels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]],
    changes: Iterable[int],
) -> Figure:
    """Draw a panel a label, in it a line a name over samples; domains begin at ``changes``."""
    figure = blank(7.2, height)
    drawn = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, lines) in zip(drawn, panels.items(), strict=True):
        for place, (name, points) in enumerate(lines.items()):
            x, y = [x for x, _ in points], [y for _, y in points]
            look = {"color": COLOURS[place % len(COLOURS)], "label": name}
            axes.plot(x, y, linestyle=STYLES[place % len(STYLES)], **look)
        for sample in changes:
            axes.axvline(sample, color=INK, alpha=0.25, linewidth=0.6, zorder=0)
        axes.set_ylabel(label, size=9)
        axes.margins(x=0)
    drawn[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.05), fontsize=9)
    drawn[-1].set_xlabel("samples seen")
    return figure


def _contents(watched: Sequence[Watched], times: slice) -> tuple[Drawing, Table]:
    """Return a panel for each memory and time: the stream in grey, the memory's clusters over it.

    All panels of one time share the plane of the stream until then.
    """
    table: Table = [["memory", "samples", "kind", "cluster", "x", "y"]]
    rows = list(zip(*(one.snapshots[times] for one in watched), strict=True))
    planes = [Plane.of(row[0].stream) for row in rows]
    for row, plane in zip(rows, planes, strict=True):
        for one, snapshot in zip(watched, row, strict=True):
            for kind, cluster, (x, y) in _places(snapshot, plane):
                table.append([one.name, snapshot.samples, kind, cluster, round(x, 5), round(y, 5)])

    def draw() -> Figure:
        figure = blank(0.5 + 2.5 * len(watched), 0.6 + 2.4 * len(rows))
        panels = figure.subplots(len(rows), len(watched), sharex="row", sharey="row", squeeze=False)
        for line, row, plane in zip(panels, rows, planes, strict=True):
            for axes, one, snapshot in zip(line, watched, row, strict=True):
                _panel(axes, snapshot, plane)
                axes.set_title(f"{one.name}: imbalance {snapshot.quality.imbalance:.1f}", size=9)
            line[0].set_ylabel(f"after {row[0].samples:,} samples", size=9)
        shares = " and ".join(f"{100 * share:.0f} %" for share in planes[-1].explained)
        figure.supxlabel(
            f"two principal components of the stream, {shares} of its variance", size=9
        )
        return figure

    return draw, table


def _places(snapshot: Snapshot, plane: Plane) -> list[tuple[str, int, tuple[float, float]]]:
    """Return kind, cluster and place of everything a panel shows but the stream."""
    held = plane.project(snapshot.held)
    found = [
        ("sample", int(cluster), (float(x), float(y)))
        for cluster, (x, y) in zip(snapshot.clusters, held.tolist(), strict=True)
    ]
    for cluster in snapshot.clusters.unique().tolist():
        x, y = held[snapshot.clusters == cluster].mean(dim=0).tolist()
        found.append(("centroid", cluster, (x, y)))
    return found


def _panel(axes: Axes, snapshot: Snapshot, plane: Plane) -> None:
    step = -(-len(snapshot.stream) // _MOST_POINTS)
    behind = plane.project(snapshot.stream[::step])
    axes.scatter(behind[:, 0], behind[:, 1], s=3, color="0.8", linewidths=0, rasterized=True)
    held = plane.project(snapshot.held)
    for cluster in snapshot.clusters.unique().tolist():
        colour, marker = COLOURS[cluster % len(COLOURS)], _MARKERS[cluster % len(_MARKERS)]
        own = held[snapshot.clusters == cluster]
        axes.scatter(own[:, 0], own[:, 1], s=7, color=colour, marker=marker, linewidths=0)
        x, y = own.mean(dim=0).tolist()
        axes.plot(x, y, "*", color=colour, markersize=13, markeredgecolor="white", zorder=3)
    axes.set_xticks([])
    axes.set_yticks([])


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
    names = [name for name in _PANELS if any(_told(row, name) for row in rows)]
    panels = {_PANELS[name]: {row.label: _told(row, name) for row in rows} for name in names}
    changes = [int(change["sample"]) for change in section.rows[0].runs[0].changes[:60]]
    return lambda: _over_time(0.6 + 1.4 * len(panels), panels, changes), table


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
