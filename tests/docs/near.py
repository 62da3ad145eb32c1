"""What the tables of near domains must say, and of runs that look like one."""

from __future__ import annotations

from explorations import Cells
from rows import load, pick, two_errors

_WHERE = ("classes", "domains", "order", "gamma", "seed", "images_a_domain", "batch_size")
_LATER = {"before": "before, later"}
_LINES = {
    "C10 mild": "10 mild ctta  11 200 64",
    "C10 mild, another order": "10 mild ctta  22 130 64",
    "C100 mild": "100 mild ctta  11 200 64",
    "C100 mild, another order": "100 mild ctta  21 130 64",
    "C100 mild, gamma 0.1, a third order": "100 mild ptta 0.1 16 200 64",
    "C10 climbing": "10 climbing ctta  13 64 64",
    "C100 climbing": "100 climbing ctta  13 64 64",
    "C10 made-up": "10 made ctta  12 200 64",
    "C100 made-up": "100 made ctta  12 200 64",
    "C100 made-up, gamma 0.1": "100 made ptta 0.1 15 300 64",
    "C100 extra, gamma 0.01": "100 extra ptta 0.01 11 1000 64",
    "C10 extra, gamma 0.01": "10 extra ptta 0.01 11 800 64",
    "the same, a later version": "10 extra ptta 0.01 11 800 64",
    "the same, 600 images": "10 extra ptta 0.01 11 600 64",
    "C10 mild, three rounds in runs": "10 mild recurring 0.1 19 70 64",
    "C10 mild, one by one": "10 mild ctta  17 40 1",
    "C10 extra, two classes": "10 extra few  11 300 64",
    "C10 mild, one class": "10 mild few  18 100 64",
}


def thresholds() -> dict[str, Cells]:
    """Undecoded errors and, of the method's own rows, the pools in the end."""
    rows = {(r["row"], " ".join(r[c] for c in _WHERE)): r for r in load("explore-15-thresholds")}
    found: dict[str, Cells] = {}
    for label, stream in _LINES.items():
        versions = ["bn", "before", "thresholds alone", "adopted"]
        if label == "C10 extra, gamma 0.01":
            versions[-1] = "none"  # of a later version, which has a line of its own
        elif (_LATER["before"], stream) in rows:
            versions[1:3] = [_LATER["before"], "none"]
        found[label] = []
        for version in versions:
            row = rows.get((version, stream))
            cell = [row["undecoded_error"], row["pools"]] if row else None
            found[label].append(cell and [float(v) for v in cell if v])
    return found


def leaning() -> dict[str, Cells]:
    """Undecoded and decoded errors before pools leaned on others, and since."""
    streams = [f"C10 {name}" for name in ("extra", "extra, short", "made-up", "made-up, short")]
    streams += ["C10 made-up, gamma 0.01", "C100 extra", "C100 extra, gamma 0.01", "C100 made-up"]
    found: dict[str, Cells] = {"before": [], "now": []}
    for code, line in found.items():
        for stream in streams:
            (row,) = pick("explore-23-leaning", code=code, stream=stream)
            line.append(two_errors(row))
    return found


_REACH = {
    "nearer than 1, of 512 images, as before": "before",
    "nearer than 0.5": "0.5",
    "nearer than 0.3": "0.3",
    "nearer than 1, of 2,048 images": "2048",
    "nearer than 0.3, or 1 of 2,048": "both",
    "MECTA": "mecta",
    "MemBN": "membn",
    "AdaContrast": "adacontrast",
}


def reach() -> dict[str, Cells]:
    """Undecoded and decoded errors by how near a pool must lie that others lean on."""
    rows = {
        tuple(row[name] for name in ("code", "stream", "images_a_domain", "seed")): row
        for row in load("explore-25-reach")
    }
    vit, groups = "ViT+, C10", "GroupNorm+, C10"
    streams = [(f"{vit} made-up", "650", seed) for seed in ("11", "12")]
    streams += [(f"{vit} mild", "650", "11"), (f"{vit} made-up", "3000", "11")]
    streams += [(f"{groups} made-up", "650", seed) for seed in ("11", "12")]
    streams += [(f"{groups} mild", "650", "11")]
    found: dict[str, Cells] = {}
    for label, code in _REACH.items():
        found[label] = [two_errors(rows.get((code, *stream))) for stream in streams]
    return found
