"""The heat map of regrets: a row for every method, a column for every kind of stream."""

from __future__ import annotations

import math
from html import escape
from itertools import groupby

from multipool.bench.compare.entrant import SOURCE
from multipool.bench.compare.judge import Judgement
from multipool.bench.report import page
from multipool.bench.report.report import shade

_BEST = 0.005  # points: what is printed as 0.0
_DARKEST = 10.0  # points, at least; small differences on a small table are not dark


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
