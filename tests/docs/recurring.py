"""What the tables of streams that come again must say, and figure 3 on whole streams."""

from __future__ import annotations

from ablations import Cells
from rows import Row, load, pick

_METHODS = {
    "source": "Source",
    "LAME": "LAME",
    "CoTTA": "CoTTA",
    "EATA": "EATA",
    "RMT": "RMT",
    "MECTA": "MECTA",
    "RoTTA": "RoTTA",
    "RDumb": "RDumb",
    "ROID": "ROID",
    "TRIBE": "TRIBE",
    "PeTTA": "PeTTA",
    "PeTTA + mcm": "PeTTA + MCM",
    "PeTTA + mcm+": "PeTTA + mcm+",
}


def rounds() -> dict[str, Cells]:
    """Twenty short rounds on both sets: the first, the last, their mean, and the paper's mean."""
    found: dict[str, Cells] = {}
    for label, row in _METHODS.items():
        found[label] = [*_levels("tableS3", row), *_levels("tableS4", row)]
    return found


def _levels(name: str, row: str) -> Cells:
    """First round, last round, mean and the paper's mean; None where a run is missing."""
    cells = [
        _number(_line(name, row, column), "ours") for column in ("round 1", "round 20", "average")
    ]
    return [*cells, _number(_line(name, row, "average"), "paper")]


def _line(name: str, row: str, column: str) -> Row:
    lines = load(f"paper-recurring/{name}")
    return next((r for r in lines if r["row"] == row and r["column"] == column), {})


def _number(line: Row, column: str) -> list[float] | None:
    return [float(line[column])] if line.get(column) else None


def thresholds() -> dict[str, Cells]:
    """Mean of twenty short rounds against threshold 0.3, and the paper's difference."""
    base = float(_line("tableS1", "threshold 0.3", "average")["ours"])
    found: dict[str, Cells] = {}
    for value in ("0.1", "0.5", "0.7"):
        line = _line("tableS1", f"threshold {value}", "average")
        found[value] = [[float(line["ours"]) - base], _number(line, "paper's difference")]
    return found


def pools() -> dict[str, Cells]:
    """Figure 3 on whole streams: a pool five times as large, and five clusters."""
    found: dict[str, Cells] = {}
    for host in ("RoTTA", "PeTTA", "ResiTTA"):
        small, large, many = (_bar(f"{host}, {size}") for size in _SIZES)
        base = float(small["ours"])
        memory = [[float(_bar(f"{host}, {size}", "gpu")["ours"])] for size in _SIZES[:2]]
        changes = [[float(line["ours"]) - base] for line in (large, many)]
        found[host] = [[base], *changes, _number(many, "paper's difference"), *memory]
    return found


_SIZES = ("single 64", "single 320", "mcm 320")


def _bar(row: str, column: str = "error") -> Row:
    (found,) = pick("paper-whole/fig3", row=row, column=column)
    return found
