"""What the table of domains that are not corruptions must say, from its rows."""

from __future__ import annotations

from statistics import mean

from rows import Row, load

Cells = list[list[float] | None]
_PLACES = ("art_painting", "cartoon", "sketch")


def adapted() -> dict[str, Cells]:
    """Errors of every method, mean over seeds: in random order, in runs, and decoded."""
    by_name: dict[str, list[Row]] = {}
    for row in load("domains"):
        plus = row["memory"] == "mcm+" and not row["method"].startswith("multipool")
        by_name.setdefault(row["method"] + ("+mcm+" if plus else ""), []).append(row)
    return {name: _cells(rows) for name, rows in by_name.items()}


def _cells(rows: list[Row]) -> Cells:
    undecoded = ["undecoded_error", *(f"undecoded {place}" for place in _PLACES)]
    wanted = [("ctta", name) for name in undecoded]
    wanted += [("ptta", name) for name in (*undecoded, "error")]
    return [[mean(float(r[name]) for r in rows if r["kind"] == kind)] for kind, name in wanted]
