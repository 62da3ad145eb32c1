"""What the tables of the paper's ablations must say, from the files that ``reproduce`` wrote."""

from __future__ import annotations

from math import sqrt
from statistics import mean, stdev

from rows import Row, pick

Cells = list[list[float] | None]


def cell(name: str, row: str, column: str = "error") -> Row:
    """Return the one line of a row and column, outside of the appendices of a table."""
    (found,) = pick(f"paper/{name}", row=row, column=column, part="")
    return found


def singly(line: Row) -> dict[str, float]:
    """Return the value of each seed.

    >>> singly({"by seed": "0:1.5 1:2"})
    {'0': 1.5, '1': 2.0}
    """
    pairs = (word.split(":") for word in line["by seed"].split())
    return {seed: float(value) for seed, value in pairs}


def against(line: Row, base: Row) -> list[float]:
    """Return the paired difference of two lines and its standard error, from their seeds."""
    first, second = singly(line), singly(base)
    gaps = [first[seed] - second[seed] for seed in first]
    return [mean(gaps), stdev(gaps) / sqrt(len(gaps))]


_PARTS = {
    "clusters alone": "MCM",
    "clusters + UCR": "MCM + UCR",
    "clusters + ACC": "MCM + ACC",
    "clusters + ACC + UCR = mcm": "MCM + ACC + UCR",
    "mcm+": "mcm+",
}


def table2() -> dict[str, Cells]:
    """Components, against PeTTA."""
    base = cell("table2", "PeTTA")
    found: dict[str, Cells] = {}
    for label, row in _PARTS.items():
        line = cell("table2", row)
        paper = line["paper's difference"]
        found[label] = [against(line, base), [float(paper)] if paper else None]
    return found


def timed(name: str, rows: dict[str, str], best: str) -> dict[str, Cells]:
    """Differences against the best row, and seconds of seed 0."""
    found: dict[str, Cells] = {}
    for label, row in rows.items():
        line, clock = cell(name, row), cell(name, row, "time")
        paper = line["paper's difference"]
        change = None if row == best else against(line, cell(name, best))
        found[label] = [
            change,
            [float(paper)] if paper else None,
            [singly(clock)["0"]],
            [float(clock["paper"])],
        ]
    return found


def table3() -> dict[str, Cells]:
    """Descriptor and threshold."""
    rows = {"CNN feature, 5.0": "CNN Feature (5.0)"}
    rows |= {f"threshold {t}": f"Pixel Stat ({t})" for t in ("0.1", "0.3", "0.5", "0.7")}
    found = timed("table3", rows, "Pixel Stat (0.3)")
    ours = cell("table3", "CNN Feature, our best (17.5)")
    change = against(ours, cell("table3", "Pixel Stat (0.3)"))
    found["CNN feature, best of seven (17.5)"] = [change, None, None, None]
    return found


def table4() -> dict[str, Cells]:
    """Consolidation."""
    rows = {"LRU": "LRU", "GCC": "GCC", "smallest (the paper's SCM)": "SCM", "ACC": "ACC"}
    return timed("table4", rows, "ACC")


def table5() -> dict[str, Cells]:
    """Twenty rounds: levels, and differences for the memories."""
    rounds = ("round 1", "average")
    found: dict[str, Cells] = {}
    for label, row in {"source": "Source", "PeTTA": "PeTTA"}.items():
        found[label] = _levels(row)
    for row in ("CoTTA", "TRIBE", "RoTTA", "RDumb"):
        found[row] = _levels(row)
    for label, row in {"mcm": "PeTTA + MCM", "mcm+": "PeTTA + mcm+"}.items():
        lines = [cell("table5", row, column) for column in rounds]
        changes = [
            against(line, cell("table5", "PeTTA", column))
            for line, column in zip(lines, rounds, strict=True)
        ]
        paper = [line["paper's difference"] for line in lines]
        theirs: Cells = [[float(text)] if text else None for text in paper]
        found[f"PeTTA + {label}, against PeTTA"] = [*changes, *theirs]
    return found


def _levels(row: str) -> Cells:
    lines = [cell("table5", row, column) for column in ("round 1", "average")]
    ours = [[mean(singly(line).values())] for line in lines]
    return [*ours, *([float(line["paper"])] for line in lines)]


def table_s1_s2() -> dict[str, Cells]:
    """Two tables side by side: thresholds over 20 rounds, and distances."""
    base = cell("tableS1", "threshold 0.3", "average")
    fixed = pick("paper/tableS2", row="Euclidean (L2), 0.3", column="error")[0]
    right = {
        "0.1": "Euclidean (L2)",
        "0.5": "Manhattan (L1)",
        "0.7": "Mahalanobis",
        "": "Cosine",
    }
    found: dict[str, Cells] = {}
    for threshold, name in right.items():
        line = cell("tableS2", name)
        best = cell("tableS2", name, "threshold")
        theirs = line["paper's difference"]
        limits = [float(best["ours"])]
        if name != "Euclidean (L2)":
            limits.append(float(best["paper"]))
        second: Cells = [limits, against(line, fixed), [float(theirs)] if theirs else None]
        first: Cells = [None, None]
        if threshold:
            round20 = cell("tableS1", f"threshold {threshold}", "average")
            first = [against(round20, base), [float(round20["paper's difference"])]]
        found[threshold] = [*first, None, None, *second]
    return found


def whole() -> dict[str, Cells]:
    """Differences on the paper's own streams, on a tenth of them, and the paper's."""
    pixels = {
        "against mcm (37.64): threshold 0.1": "Pixel Stat (0.1)",
        "threshold 0.5": "Pixel Stat (0.5)",
        "threshold 0.7": "Pixel Stat (0.7)",
        "CNN feature, 5.0": "CNN Feature (5.0)",
        "CNN feature, best of seven": "CNN Feature, our best",
    }
    merged = {"merging: LRU": "LRU", "merging: GCC": "GCC", "merging: the smallest": "SCM"}
    many = dict(zip(("one cluster", *_MANY), (1, 2, 3, 4, 7, 10), strict=True))
    distances = {
        "cosine, best of five": "Cosine",
        "Mahalanobis, best of five": "Mahalanobis",
        "L1, best of five": "Manhattan (L1)",
        "L2, threshold 0.2": "Euclidean (L2), 0.2",
    }
    return {
        **{_first(label): _gaps("table2", row, "PeTTA") for label, row in _PARTS.items()},
        **{label: _gaps("table3", row, "Pixel Stat (0.3)") for label, row in pixels.items()},
        **{label: _gaps("table4", row, "ACC") for label, row in merged.items()},
        **{label: _gaps("figS1", f"K_max {count}", "K_max 5") for label, count in many.items()},
        **{label: _gaps("tableS2", row, "Euclidean (L2), 0.3") for label, row in distances.items()},
    }


def _first(label: str) -> str:
    """Return a label as the page has it: the first line says what the differences are against."""
    return f"against PeTTA's own pool (37.41): {label}" if label == "clusters alone" else label


_MANY = ("two clusters", "three clusters", "four clusters", "seven clusters", "ten clusters")


def _gaps(name: str, row: str, base: str) -> Cells:
    """Difference of two rows in the files of whole streams and of a tenth, and the paper's.

    Paired by seed: on whole streams some rows have two, the others one.
    """
    gaps: Cells = []
    for folder in ("paper-whole", "paper"):
        line, other = _line(f"{folder}/{name}", row), _line(f"{folder}/{name}", base)
        ours, theirs = singly(line), singly(other)
        gaps.append([mean(ours[seed] - theirs[seed] for seed in ours if seed in theirs)])
    return [*gaps, [float(line["paper's difference"])] if line["paper's difference"] else None]


def _line(name: str, row: str) -> Row:
    """Return the line of an error; the best of a grid has its threshold behind its name."""
    part = "All thresholds" if row.startswith("Euclidean") else ""
    lines = pick(name, column="error", part=part)
    names = (row, *(f"{row} ({value})" for value in ("17.5", "20.0")))
    (found,) = [line for line in lines if line["row"] in names]
    return found
