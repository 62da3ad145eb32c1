"""What the tables of things tried on multipool and not adopted must say."""

from __future__ import annotations

from explorations import Cells, errors_of
from rows import load, two_errors

NINTH, TENTH = "explore-9-decoded-labels", "explore-10-student"
_RUNS = [
    ("wrn16-2", "10", "extra", "ptta", "5000", "0.1"),
    ("wrn16-2", "10", "made", "ptta", "1000", "0.1"),
    ("wrn16-2", "100", "extra", "ptta", "5000", "0.1"),
    ("wrn16-2", "100", "made", "ptta", "5000", "0.1"),
]
_EIGHT = [
    ("wrn16-2", "10", "extra", "ctta", "1000", ""),
    ("wrn16-2", "10", "made", "ctta", "1000", ""),
    ("wrn16-2", "10", "made", "ptta", "1000", "0.1"),
    ("wrn16-2", "100", "extra", "ctta", "5000", ""),
    ("wrn16-2", "100", "made", "ctta", "1000", ""),
    ("wrn16-2", "100", "made", "ptta", "1000", "1.0"),
    ("wrn16-2", "100", "made", "ptta", "1000", "0.1"),
    ("resnext29-4x32d", "100", "extra", "ctta", "1000", ""),
]


def ninth() -> dict[str, Cells]:
    """Learning from decoded or true labels, and options: undecoded and decoded errors."""
    plain, decoded = errors_of(NINTH), errors_of(NINTH, "decoded_error")
    return {
        label: [
            [plain[name, *key], decoded[name, *key]] if (name, *key) in plain else None
            for key in _RUNS
        ]
        for label, name in _LABELLED.items()
    }


def tenth() -> dict[str, Cells]:
    """A second network: undecoded errors, and the mean against multipool over all eight."""
    errors = errors_of(TENTH)
    found: dict[str, Cells] = {}
    for label, name in _STUDENT.items():
        cells: Cells = [[errors[name, *k]] if (name, *k) in errors else None for k in _EIGHT]
        gains = [errors[name, *k] - errors["default", *k] for k in _EIGHT if (name, *k) in errors]
        found[label] = [*cells, [sum(gains) / 8] if len(gains) == 8 else None]
    return found


_LABELLED = {
    "multipool as it is": "now",
    "steps of a quarter, first 1,024 and every 256": "r.25",
    "steps of a quarter, every batch": "r.25-all",
    "and under the pool's statistics": "r.25-pool-all",
    "and not pulled back to the source": "r.25-all-p0",
    "and augmented": "r.25-aug-all",
    "and augmented, a running mean (0.01) answers": "r.25-ema.01-aug-all",
    "the same, whole steps": "r1-ema.01-aug-all",
    "whole steps, first 1,024 and every 256": "r1",
    "true labels in the bank, nothing learned": "oracle-now",
    "true labels, steps of a quarter, every batch": "oracle-r.25-all",
    "and augmented, a running mean answers": "oracle-r.25-ema.01-aug-all",
    "likeness=0.3": "likeness.3",
    "prior=8": "prior8",
    "rate=0.02": "rate.02",
    "samples=128": "samples128",
    "samples=256": "samples256",
    "young=2048": "young2048",
    "runs=0.3": "runs.3",
    "runs=0": "runs0",
    "RoTTA": "rotta",
    "RoTTA, lr=0": "rotta-lr0",
    "TRIBE": "tribe",
}
_STUDENT = {
    "multipool as it is": "default",
    "nothing is learned": "lr0",
    "student, all weights": "all",
    "and the pools learn as well": "all+roid",
    "lr 0.0003": "all-3e-4",
    "asked under the pool's moving statistics": "all-stats",
    "and its share grows to 0.8": "all-grow-stats",
    "its share 0.75": "all-a.75",
    "taught by the mixed answer": "all-whole",
    "taught by its own running mean": "ema",
    "the last third of its layers": "last33",
    "all weights, SGD, lr 0.03": "sgd-.03",
    "no student, all weights of the pools, lr 0.0001": "pools-1e-4",
    "RMT": "rmt",
    "bn": "bn",
}


_IN_RUNS = {
    "nothing is learned": "base",
    "steps of 0.001, every 64 images": "ce.001",
    "steps of 0.004, every 64": "ce.004",
    "steps of 0.004, every 256": "ce.004e256",
    "the same, shorter with few classes": "Q",
    "the same, of 0.008": "Q.008",
    "and with the moments of other steps": "P",
    "every 64, hardly pulled back": "ce.004pull.001",
    "every 64, under the pool's statistics": "ce.004pool",
    "every 64, images and a view": "ce.004view",
    "every 64, ROID's loss without labels": "slr.004",
    "each image once, 256 a step of 0.002": "st256.002",
    "each image once, 512 a step of 0.004": "st512",
    "its views instead": "st512view",
    "class-balanced bank, nothing learned": "single",
    "class-balanced bank, every 64": "single+ce.004",
    "runs=0.3": "runs.3",
    "TRIBE": "tribe",
    "PeTTA": "petta",
}


def in_runs() -> dict[str, Cells]:
    """Undecoded and decoded errors of steps where classes come in runs, which were left out."""
    rows = {(row["code"], row["stream"]): row for row in load("explore-24-in-runs")}
    streams = [f"C100 {name}, ResNeXt-29" for name in ("extra", "made-up")]
    streams += ["C100 made-up", "C10 made-up"]
    found: dict[str, Cells] = {}
    for label, code in _IN_RUNS.items():
        found[label] = [two_errors(rows.get((code, stream))) for stream in streams]
    return found
