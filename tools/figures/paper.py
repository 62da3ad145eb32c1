"""The paper's figures 3 and S1 from kept rows, narrow enough for a phone."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from style import BLUE, INK, ORANGE, SOFT, figure

from multipool.data import COMMON

DATA = Path(__file__).resolve().parents[2] / "docs" / "data" / "paper"
HOSTS, SIZES, MOST = ("RoTTA", "PeTTA", "ResiTTA"), (64, 128, 192, 256, 320), (1, 2, 3, 4, 5, 7, 10)


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def pool_size() -> Figure:
    """Draw the error of larger single pools and of more clusters, a panel for each method.

    Bars are standard errors of the difference by seed: the streams' own spread is in all points.
    """
    errors = {
        row["row"]: (float(row["ours"]), float(row["standard error"] or 0))
        for row in _rows("fig3")
        if row["column"] == "error"
    }
    drawn = figure(6.4)
    panels = drawn.subplots(3, 1, sharex=True)
    for axes, host in zip(panels, HOSTS, strict=True):
        for memory, label, colour, style in (
            ("single", "one pool", BLUE, "o-"),
            ("mcm", "clusters of 64", ORANGE, "s--"),
        ):
            found = [errors[f"{host}, {memory} {size}"] for size in SIZES]
            means, spread = zip(*found, strict=True)
            axes.errorbar(SIZES, means, spread, fmt=style, color=colour, label=label, capsize=3)
        axes.set_title(host, fontsize=11)
        axes.set_ylabel("error, %")
    panels[-1].set_xticks(SIZES)
    panels[-1].set_xlabel("samples held at most")
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawn


def most_clusters() -> Figure:
    """Draw the error by the most clusters, and by corruption as a difference to its mean."""
    rows = _rows("figS1")
    total = {row["row"]: row for row in rows if row["column"] == "error"}
    drawn = figure(7.4)
    above, below = drawn.subplots(2, 1, height_ratios=(2, 5))
    means = [float(total[f"K_max {most}"]["ours"]) for most in MOST]
    spread = [float(total[f"K_max {most}"]["standard error"] or 0) for most in MOST]
    above.errorbar(MOST, means, spread, fmt="o-", color=BLUE, capsize=3)
    above.set_xticks(MOST)
    above.set_xlabel("most clusters, K_max")
    above.set_ylabel("error, %")
    cells = {(row["column"], row["row"]): float(row["ours"]) for row in rows if row["part"]}
    grid = np.array([[cells[name, f"K_max {most}"] for most in MOST] for name in COMMON])  # (15, 7)
    change = grid - grid.mean(axis=1, keepdims=True)
    below.imshow(change, aspect="auto", cmap="PuOr_r", vmin=-10, vmax=10)
    for (row, column), value in np.ndenumerate(grid):
        strong = abs(change[row, column]) > 7
        colour = "white" if strong else INK
        below.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=9)
    below.set_yticks(range(len(COMMON)), [name.replace("_", " ") for name in COMMON], fontsize=9)
    below.set_xticks(range(len(MOST)), [str(most) for most in MOST])
    below.set_xlabel("most clusters, K_max")
    below.tick_params(length=0, labelcolor=SOFT)
    return drawn
