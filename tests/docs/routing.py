"""What the table of the rules for a change of domain must say."""

from __future__ import annotations

from statistics import mean

from explorations import Cells
from rows import load

_COLUMNS = [
    ("wrn16-2", "10", "extra", "ctta", "1000", "", "64"),
    ("wrn16-2", "10", "made", "ctta", "1000", "", "64"),
    ("wrn16-2", "10", "made", "ptta", "1000", "0.1", "64"),
    ("wrn16-2", "10", "made", "ptta", "1000", "0.1", "16"),
    ("wrn16-2", "10", "extra", "ptta", "5000", "0.1", "64"),
    ("wrn16-2", "100", "made", "ctta", "1000", "", "64"),
    ("wrn16-2", "100", "made", "ptta", "1000", "1.0", "64"),
    ("wrn16-2", "100", "made", "ptta", "1000", "0.1", "64"),
    ("wrn16-2", "100", "extra", "ptta", "5000", "0.1", "64"),
    ("resnext29-4x32d", "100", "extra", "ctta", "1000", "", "64"),
]
_WHERE = ("model", "classes", "domains", "order", "images_a_domain", "gamma", "batch_size")
_LINES = {
    "before": "before",
    "the pool begins at the change": "cut at the change",
    "and images in units of their own variation": "cut and own variation",
}


def changes() -> dict[str, Cells]:
    """Undecoded and decoded errors, means of three seeds; the mean of all undecoded ones."""

    def cell(row: str, key: tuple[str, ...], column: str) -> float:
        every = [
            float(r[column])
            for r in load("explore-11-changes")
            if r["row"] == row and tuple(r[part] for part in _WHERE) == key
        ]
        assert len(every) == 3
        return mean(every)

    found: dict[str, Cells] = {}
    for label, row in _LINES.items():
        pairs = [[cell(row, k, c) for c in ("undecoded_error", "decoded_error")] for k in _COLUMNS]
        before = [cell("before", k, "undecoded_error") for k in _COLUMNS]
        gain = mean(p[0] - b for p, b in zip(pairs, before, strict=True))
        found[label] = [*pairs, [gain]]
    return found
