"""A drawing of all regrets: a line for every method, a dot for every kind of stream."""

from __future__ import annotations

import math
from html import escape

from multipool.bench.compare.judge import Judgement
from multipool.bench.compare.regret import Standing

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 860.0, 170.0, 130.0, 30.0, 34.0
_APART = 34.0  # of two marks of the axis, at least
_MARKS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0)


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
