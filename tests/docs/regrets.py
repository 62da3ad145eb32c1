"""What the tables of comparisons must say, from the rows that were kept."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

from rows import load

Cells = list[list[float] | None]
_NAMES = {
    "multipool": "multipool",
    "tribe, the best published one": "tribe",
    "rotta": "rotta",
    "the frozen model": "source",
    "bn": "bn",
    "tent": "tent",
}


def field(column: str) -> dict[str, Cells]:
    """Error of each method on each kind of stream, one seed; nothing where there is no run."""
    rows = load("compare/field")
    kinds = ("ptta", "ctta", "mixed", "batch-4")
    run = {(row["dataset"], row["kind"]) for row in rows}
    columns = [(d, k) for d in ("cifar10-c", "cifar100-c") for k in kinds if (d, k) in run]
    found: dict[str, Cells] = {}
    for row in rows:
        cells = found.setdefault(row["method"], [[] for _ in columns])
        cells[columns.index((row["dataset"], row["kind"]))] = [float(row[column])]
    return found


def regrets() -> dict[str, Cells]:
    """Mean and worst regret without the decoder, and streams worse than the frozen model's."""
    errors: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in load("compare/compare"):
        name = row["method"] + ("" if row["memory"] in ("", "single") else f"+{row['memory']}")
        name = "multipool" if row["method"] == "multipool" else name
        stream = (row["dataset"], row["model"], row["kind"])
        errors[stream][name].append(float(row["undecoded_error"] or row["error"]))
    streams = [
        {name: mean(found) for name, found in stream.items()}
        for stream in errors.values()
        if len(stream) > 2  # batch-1 and recurring were run with two methods only
    ]
    found: dict[str, Cells] = {}
    for label, name in _NAMES.items():
        gaps = [stream[name] - _best(stream) for stream in streams]
        worse = sum(stream[name] > stream["source"] for stream in streams)
        count = None if name == "source" else [float(worse), float(len(streams))]
        found[label] = [[mean(gaps)], [max(gaps)], count]
    return found


def _best(stream: dict[str, float]) -> float:
    """The least error; LAME reads neighbours as the decoder does, so it sets none without it."""
    return min(error for name, error in stream.items() if name != "lame")
