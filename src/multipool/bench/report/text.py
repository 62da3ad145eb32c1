"""Runs as a table for a terminal: errors, gains, and speeds no finer than they are known."""

from __future__ import annotations

from multipool.bench.report.summary import Gain, Section
from multipool.bench.report.verdict import over_source


def summary_table(section: Section) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: mean error, spread, gain over the frozen model, speed, seeds."""
    columns = ["method", "memory", "error %", "std", "against source", "samples/s", "seeds"]
    rows = []
    for row in section.rows:
        name = f"{row.method} ({row.variant})" if row.variant else row.method
        cells = [name, row.memory, f"{row.mean:.2f}", number(row.std)]
        cells += [gain_text(over_source(section, row)), rough(row.speed), str(len(row.runs))]
        rows.append(cells)
    return columns, rows


def number(value: float | None, digits: int = 2) -> str:
    """Return a number for a table; a dash where there is none.

    >>> number(1.234), number(None)
    ('1.23', '–')
    """
    return "–" if value is None else f"{value:,.{digits}f}"


def rough(value: float | None) -> str:
    """Return a speed or a time in two figures: the third differs from run to run.

    >>> rough(1287.3), rough(94.21), rough(7.46), rough(None)
    ('1,300', '94', '7.5', '–')
    """
    if value is None:
        return "–"
    shown = float(f"{value:.2g}")
    return f"{shown:,.0f}" if shown >= 10 else f"{shown:g}"


def gain_text(gain: Gain | None) -> str:
    """Return a gain in points, with its standard error where there are seeds."""
    if gain is None:
        return "–"
    text = f"{gain.difference:+.2f}".replace("-", "−")
    return text if gain.error is None else f"{text} ± {gain.error:.2f}"
