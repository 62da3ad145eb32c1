"""Drawings of regrets: a heat map of methods by kinds of stream, and a strip of dots for each."""

from __future__ import annotations

import math
from html import escape
from itertools import groupby

from multipool.bench.compare.entrant import SOURCE
from multipool.bench.compare.judge import Judgement
from multipool.bench.compare.regret import Standing
from multipool.bench.report import page
from multipool.bench.report.report import shade

_BEST = 0.005  # points: what is printed as 0.0
_DARKEST = 10.0  # points, at least; small differences on a small table are not dark
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 860.0, 170.0, 130.0, 30.0, 34.0
_APART = 34.0  # of two marks of the axis, at least
_MARKS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0)


def heat(judgement: Judgement) -> str:
    """Return the map as a table: the numbers stand in the cells, colour only helps."""
    columns = list(judgement.regrets)
    groups = [column.rpartition("/")[0] for column in columns]
    edges = {
        c for c, g, before in zip(columns[1:], groups[1:], groups[:-1], strict=True) if g != before
    }
    high = max(
        _DARKEST,
        *(v for values in judgement.regrets.values() for v in values.values()),
    )
    rows = []
    for standing in judgement.standings:
        cells = [
            _cell(judgement, column, standing.row, high, column in edges) for column in columns
        ]
        mean = page.cell(_points(standing.mean), "mean")
        rows.append(page.row(standing.row, [*cells, mean]))
    return page.table(_head(columns), rows, "heat regret")


def _head(columns: list[str]) -> list[str]:
    """Return two lines of titles: dataset and model over the names of the kinds."""
    groups = groupby(columns, key=lambda column: column.rpartition("/")[0])
    made = ["<th></th>"]
    for name, members in groups:
        dataset, _, model = name.partition("/")
        many = len(list(members))
        told = f"{escape(dataset)}<br><small>{escape(model)}</small>"
        made.append(f'<th class="group" scope="colgroup" colspan="{many}">{told}</th>')
    made += ["<th></th>", "</tr><tr>", "<th></th>"]
    names = [column.rpartition("/")[2] for column in columns]
    made += [f'<th scope="col"><div class="tilt">{escape(name)}</div></th>' for name in names]
    return [*made, '<th scope="col" class="mean"><div class="tilt">mean</div></th>']


def _cell(judgement: Judgement, column: str, row: str, high: float, edge: bool) -> str:
    errors, regret = judgement.errors[column], judgement.regrets[column].get(row)
    if regret is None:
        return f'<td class="none{" edge" if edge else ""}" title="no run">–</td>'
    marks = ["edge"] if edge else []
    if regret < _BEST:
        marks.append("top")
    if row != SOURCE and errors[row] > errors.get(SOURCE, math.inf):
        marks.append("under")
    told = f"{row} on {column}: error {errors[row]:.2f} %, regret {regret:.2f}"
    style = shade(math.sqrt(max(0.0, regret) / high))
    return (
        f'<td class="{" ".join(marks)}" style="{style}" title="{escape(told)}">'
        f"{_points(regret)}</td>"
    )


def _points(value: float) -> str:
    """Return points with a true minus; what rounds to nothing has no sign.

    >>> _points(-0.04), _points(-1.25), _points(3.0)
    ('0.0', '−1.2', '3.0')
    """
    text = f"{value:.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", "−")


def strip(judgement: Judgement) -> str:
    """Return the drawing as SVG; the axis grows as a root, so that small regrets stay apart."""
    table = judgement.standings
    high = max(1.0, *(standing.worst for standing in table))
    height = _TOP + _ROW * len(table) + 8
    parts = [_axis(high, height)]
    parts += [_line(judgement, standing, i, high) for i, standing in enumerate(table)]
    told = f"Regrets of {len(table)} methods, {judgement.title.lower()}"
    return (
        f'<figure class="large"><div class="wide"><svg class="strip" role="img" '
        f'aria-label="{escape(told)}" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg></div></figure>'
    )


def position(regret: float, high: float) -> float:
    """Return the share of the axis at which a regret lies; below 0 there is no room.

    >>> position(1.0, 4.0), position(-3.0, 4.0), position(4.0, 4.0)
    (0.5, 0.0, 1.0)
    """
    return math.sqrt(max(0.0, regret) / high)


def _across(regret: float, high: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * position(regret, high)


def _axis(high: float, height: float) -> str:
    parts, last = [], -math.inf
    for mark in _MARKS:
        x = _across(mark, high)
        if mark > high or x - last < _APART:
            continue
        last = x
        parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{height:.0f}"/>')
        parts.append(f'<text class="mark" x="{x:.1f}" y="16" text-anchor="middle">{mark:g}</text>')
    side = _WIDTH - _RIGHT + 20
    parts.append(f'<text class="mark" x="{_LEFT - 14:.0f}" y="16" text-anchor="end">regret</text>')
    parts.append(f'<text class="mark" x="{side:.0f}" y="16">mean / worst</text>')
    return "".join(parts)


def _line(judgement: Judgement, standing: Standing, index: int, high: float) -> str:
    """Return a method's dots, a bar at their mean, and both numbers."""
    y = _TOP + _ROW * (index + 0.5)
    kind = "apart" if standing.row in judgement.apart else "first" if index == 0 else ""
    dots = "".join(
        f'<circle cx="{_across(values[standing.row], high):.1f}" cy="{y:.1f}" r="5">'
        f"<title>{escape(column)}: {values[standing.row]:.2f}</title></circle>"
        for column, values in judgement.regrets.items()
        if standing.row in values
    )
    x, numbers = _across(standing.mean, high), f"{standing.mean:.2f} / {standing.worst:.2f}"
    return (
        f'<g class="{kind}"><text x="{_LEFT - 14:.0f}" y="{y + 4:.1f}" text-anchor="end">'
        f"{escape(standing.row)}</text>{dots}"
        f'<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 11:.1f}" y2="{y + 11:.1f}"/>'
        f'<text x="{_WIDTH - _RIGHT + 20:.0f}" y="{y + 4:.1f}">{numbers}</text></g>'
    )
