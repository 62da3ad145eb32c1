"""What the tables of speeds must say, from the rows that were kept."""

from __future__ import annotations

from rows import load

Cells = list[list[float] | None]
_KINDS = ("convolutions", "fused normalisation", "fused normalisation, backward")
_COLUMNS = ("ms", "kernels ms", "launches", *_KINDS, "reductions", "elementwise", "copies")
_WHEN = {"before, float32": "before", "now, float32": "now, float32", "now, float16": "default"}


def kernels() -> dict[str, Cells]:
    """Milliseconds of kernels by kind, and of a batch by the clock; none: not fused."""
    found: dict[str, Cells] = {}
    for row in load("kernels-h200"):
        method, when = row["method"], _WHEN[row["label"]]
        plain = {"source": "source, float32", "multipool": "multipool, default"}
        values = [float(row[name]) for name in _COLUMNS]
        found[plain.get(method, f"{method}: {when}")] = [[v] if v else None for v in values]
    return found
