"""Pools of a run: which one the stream was in, beside the domains that it really showed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipool.bench.report import page
from multipool.bench.report.figures import (
    COLOURS,
    INK,
    RULE,
    Drawing,
    Picture,
    Table,
    blank,
    write_picture,
)
from multipool.bench.report.summary import Row, Section
from multipool.bench.run.result import Result
from multipool.bench.run.tally import MOST_CHANGES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_EVENTS = ("created", "recalled", "merged", "split")


@dataclass(frozen=True)
class Stretch:
    """Samples of the stream in a row, ``start`` to ``end`` (not included), of one name."""

    name: str
    start: int
    end: int


def pool_pictures(section: Section, folder: Path, prefix: str = "") -> list[Picture]:
    """Draw the timeline of every run that has pools into ``folder``."""
    runs = [(row, run) for row in section.rows for run in row.runs if pool_stretches(run)]
    drawn = []
    for place, (row, run) in enumerate(runs, 1):
        number = "" if len(runs) == 1 else f"{place}-"
        seed = "" if len(row.runs) == 1 else f", seed {run.seed}"
        title = f"Pools of {row.label}{seed}"
        found = _timeline(run, title)
        drawn.append(write_picture(f"{prefix}{number}pools", title, folder, *found))
    return drawn


def pool_table(section: Section) -> str:
    """Return what became of the pools of every run, as a table; "" if there were none."""
    made = []
    for row in section.rows:
        for run in row.runs:
            if run.pools is not None:
                made.append(_table_row(row, run, run.pools))
    if not made:
        return ""
    titles = ["seed", "pools at the end", *_EVENTS]
    return page.table([page.head("", word=True), *(page.head(t) for t in titles)], made)


def pool_stretches(run: Result) -> list[Stretch]:
    """Return which pool was active when, by the last image of each batch.

    A list of changes that is full says nothing about what came after it.
    """
    if run.pools is None:
        return []
    trace: Sequence[Mapping[str, int]] = run.pools["trace"]
    batch = run.settings.get("batch_size")
    before = batch if isinstance(batch, int) else 0
    starts = [(f"pool {p['pool']}", max(0, p["samples"] - before)) for p in trace]
    return _joined(starts, None if len(trace) >= MOST_CHANGES else run.samples)


def domain_stretches(run: Result) -> list[Stretch]:
    """Return which domain was shown when; nothing where they change all the time."""
    return _joined([(c["domain"], c["sample"]) for c in run.changes], run.samples)


def _joined(starts: list[tuple[str, int]], end: int | None) -> list[Stretch]:
    ends = [start for _, start in starts[1:]] + ([] if end is None else [end])
    pairs = zip(starts, ends, strict=False)
    return [Stretch(name, start, end) for (name, start), end in pairs if end > start]


def _timeline(run: Result, title: str) -> tuple[Drawing, Table]:
    """Return one lane for each domain and one for each pool, over the samples of the stream."""
    domains, pools = domain_stretches(run), pool_stretches(run)
    table: Table = [["lane", "name", "start", "end"]]
    for lane, stretches in (("domain", domains), ("pool", pools)):
        table += [[lane, s.name, s.start, s.end] for s in stretches]

    def draw() -> Figure:
        lanes = [_lanes(stretches) for stretches in (domains, pools) if stretches]
        heights = [len(names) + 0.5 for names in lanes]
        figure = blank(7.2, 0.9 + 0.24 * sum(heights))
        ratios = {"height_ratios": heights}
        panels = figure.subplots(len(lanes), 1, sharex=True, squeeze=False, gridspec_kw=ratios)[
            :, 0
        ]
        if domains:
            _draw_lanes(panels[0], domains, [INK])
        _draw_lanes(panels[-1], pools, COLOURS)
        panels[0].set_title(title, fontsize=9)
        panels[-1].set_xlabel("samples seen")
        panels[-1].set_xlim(0, run.samples)
        return figure

    return draw, table


def _draw_lanes(axes: Axes, stretches: list[Stretch], colours: Sequence[str]) -> None:
    names = _lanes(stretches)
    for lane, name in enumerate(names):
        bars = [(s.start, s.end - s.start) for s in stretches if s.name == name]
        colour = colours[lane % len(colours)]
        axes.broken_barh(bars, (lane - 0.35, 0.7), facecolors=colour, linewidth=0)
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], fontsize=8)
    axes.set_ylim(len(names) - 0.25, -0.75)
    axes.grid(axis="x", color=RULE)
    axes.set_axisbelow(True)


def _lanes(stretches: Iterable[Stretch]) -> list[str]:
    """Return the names in the order in which they first appear."""
    return list(dict.fromkeys(stretch.name for stretch in stretches))


def _table_row(row: Row, run: Result, pools: Mapping[str, Any]) -> str:
    values = [run.seed, *(pools.get(key, "–") for key in ("pools", *_EVENTS))]
    return page.row(row.label, [page.cell(str(value)) for value in values])
