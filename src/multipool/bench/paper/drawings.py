"""Figures 3 and S1; each says at what scale it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipool.bench.paper.cell import Cell
from multipool.bench.paper.grids import CLUSTERS, HOSTS, SIZES
from multipool.bench.report.figures import (
    COLOURS,
    INK,
    RULE,
    Drawing,
    Table,
    blank,
    faced,
    write_picture,
)
from multipool.data.corruptions import COMMON

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOOKS = {"single": (COLOURS[0], "", "o", "-"), "mcm": (COLOURS[1], "//", "s", "--")}
Cells = Mapping[tuple[str, str], Cell]


def draw_scaling(cells: Sequence[Cell], folder: Path, face: str) -> list[Path]:
    """Draw Fig. 3: bars are errors, lines times, a panel a method."""
    by_place = {(cell.row, cell.column): cell for cell in cells}
    hosts = [h for h in HOSTS if by_place.get((f"{h}, single 64", "error"), Cell("", "")).values]

    def draw() -> Figure:
        count = max(1, len(hosts))
        figure = blank(3.4 * count, 3.6)
        panels = figure.subplots(1, count, sharey=True, squeeze=False)[0]
        lines = [_scaling_panel(axes, host, by_place) for axes, host in zip(panels, hosts)]  # noqa: B905
        if lines:
            lines[-1].set_ylabel("seconds for 150,000 images, lines", size=9)
        errors = [cell.ours for cell in cells if cell.column == "error" and cell.ours is not None]
        if errors:
            room = 0.5 * (max(errors) - min(errors)) + 0.25
            panels[0].set_ylim(min(errors) - room, max(errors) + room)
        panels[0].set_ylabel("error (%), bars (axis cut below)", size=9)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
        return figure

    return _written("fig3", "Larger pools against more clusters", folder, draw, cells, face)


def _scaling_panel(axes: Axes, host: str, cells: Cells) -> Axes:
    """Draw one method: two bars a size, and the time of the stream over them; return its axes.

    Thin lines on the bars are the standard error of the difference to the pool of 64, by seed:
    the spread between seeds is that of the streams, which all bars share.
    """
    times = axes.twinx()
    for place, (memory, (colour, hatch, marker, style)) in enumerate(_LOOKS.items()):
        rows = [f"{host}, {memory} {size}" for size in SIZES]
        error = [cells.get((row, "error"), Cell(row, "error")) for row in rows]
        seconds = [cells.get((row, "time"), Cell(row, "time")) for row in rows]
        x = [index + (place - 0.5) * 0.4 for index in range(len(SIZES))]
        name = "one pool" if memory == "single" else "MCM, clusters of 64"
        axes.bar(
            x,
            [_or_nan(cell.ours) for cell in error],
            width=0.38,
            yerr=[_paired_error(cell) for cell in error],
            error_kw={"elinewidth": 1.0, "ecolor": INK},
            label=f"{name}, error",
            color=colour,
            hatch=hatch,
            edgecolor="white",
            alpha=0.75,
        )
        line: dict[str, Any] = {"marker": marker, "linestyle": style, "markerfacecolor": colour}
        line |= {"color": INK, "markersize": 6, "linewidth": 1.2}
        times.plot(range(len(SIZES)), [_or_nan(cell.ours) for cell in seconds], **line)
        axes.plot([], [], label=f"{name}, time", **line)
    axes.set_xticks(range(len(SIZES)), [str(size) for size in SIZES])
    axes.set_xlabel("samples held at most")
    axes.set_title(host, size=10)
    times.set_ylim(0, 1.08 * times.get_ylim()[1])  # room for the marker of the longest
    times.spines["right"].set_visible(True)
    return times


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _paired_error(cell: Cell) -> float:
    gain = cell.gain
    return 0.0 if gain is None or gain.error is None else gain.error


def draw_clusters(cells: Sequence[Cell], folder: Path, face: str) -> list[Path]:
    """Draw Fig. S1: error by the most clusters, and its heat map by corruption."""
    by_place = {(cell.row, cell.column): cell for cell in cells}

    def draw() -> Figure:
        figure = blank(11.0, 4.2)
        left, right = figure.subplots(1, 2, width_ratios=(1, 2.1))
        _curve(left, by_place)
        _heat(right, by_place, figure)
        return figure

    return _written("figS1", "Error by the most clusters", folder, draw, cells, face)


def _curve(axes: Axes, cells: Cells) -> None:
    found = [(k, cells.get((f"K_max {k}", "error"))) for k in CLUSTERS]
    there = [
        (k, c.ours, _paired_error(c)) for k, c in found if c is not None and c.ours is not None
    ]
    if not there:
        return
    most, errors, spread = zip(*there, strict=True)
    axes.errorbar(most, errors, yerr=spread, marker="o", color=COLOURS[0], capsize=3)
    best = min(there, key=lambda one: one[1])[0]
    axes.axvline(best, color=COLOURS[1], linestyle="--", label=f"least error: {best}")
    axes.set_xticks(CLUSTERS)
    axes.set_xlabel("most clusters, K_max")
    axes.set_ylabel("error (%) ± standard error of the difference to 5", size=9)
    axes.grid(axis="y")
    axes.legend(fontsize=9)


def _heat(axes: Axes, cells: Cells, figure: Figure) -> None:
    """Draw each corruption against its own mean over K_max, so that the columns compare."""
    import numpy as np

    grid = np.full((len(COMMON), len(CLUSTERS)), np.nan)
    for (y, domain), (x, most) in ((a, b) for a in enumerate(COMMON) for b in enumerate(CLUSTERS)):
        cell = cells.get((f"K_max {most}", domain))
        if cell is not None and cell.ours is not None:
            grid[y, x] = cell.ours
    if np.isnan(grid).all():
        return
    shown = grid - np.nanmean(grid, axis=1, keepdims=True)
    picture = axes.imshow(shown, cmap="cividis_r", aspect="auto")
    middle = (np.nanmin(shown) + np.nanmax(shown)) / 2
    for (y, x), value in np.ndenumerate(grid):
        if not np.isnan(value):
            ink = "white" if shown[y, x] > middle else "black"
            axes.text(x, y, f"{value:.1f}", ha="center", va="center", color=ink, fontsize=8)
    axes.set_xticks(range(len(CLUSTERS)), [str(most) for most in CLUSTERS])
    axes.set_yticks(range(len(COMMON)), [name.replace("_", " ") for name in COMMON], fontsize=8)
    axes.set_xlabel("most clusters, K_max")
    axes.spines[:].set_edgecolor(RULE)
    figure.colorbar(picture, ax=axes, label="error less the row's mean (points)", pad=0.01)


def _written(
    name: str, title: str, folder: Path, draw: Drawing, cells: Sequence[Cell], face: str
) -> list[Path]:
    table: Table = [["scale", "part", "row", "column", "seeds", "ours", "std", "paper"]]
    for cell in cells:
        if cell.ours is not None:
            std = None if cell.std is None else round(cell.std, 4)
            numbers = [len(cell.values), round(cell.ours, 4), std, cell.paper]
            table.append([face, cell.part, cell.row, cell.column, *numbers])
    return list(write_picture(name, title, folder, faced(draw, f"{title}\n{face}"), table).files)
