"""What the tables of comparisons must say, from the rows that were kept."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from statistics import mean

from rows import load, two_errors

Cells = list[list[float] | None]
_NAMES = {
    "multipool": "multipool",
    "tribe, the best published one": "tribe",
    "rotta": "rotta",
    "the frozen model": "source",
    "bn": "bn",
    "tent": "tent",
}


TEN = "ptta domains-250 gamma-0.01 gamma-1 ctta mixed interleaved batch-4 batch-16 batch-200"
NINE = TEN.replace("batch-4 ", "")


def errors(
    file: str, dataset: str, kinds: str, column: str, left_out: tuple[str, ...] = ()
) -> dict[str, Cells]:
    """Error of each method on each kind of stream, and its seeds if they are not three or one."""
    wanted = kinds.split()
    cells: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in wanted])
    for row in load(f"compare/{file}"):
        if (row["dataset"], row["model"]) == (dataset, "wrn16-2") and row["kind"] in wanted:
            cells[_name(row)][wanted.index(row["kind"])].append(float(row[column] or row["error"]))
    most = max(len(found) for line in cells.values() for found in line)
    return {
        name: [[mean(f), *([float(len(f))] if len(f) != most else [])] if f else None for f in line]
        for name, line in cells.items()
        if name not in left_out and sum(map(bool, line)) > 1
    }


def ablation() -> dict[str, Cells]:
    """Undecoded and decoded errors of multipool with something changed, no image twice, seed 0."""
    places = list(product(("cifar10-c", "cifar100-c"), ("ptta", "ctta", "mixed")))
    rows = load("compare/ablation-distinct")
    found: dict[str, Cells] = {}
    for label, name in _PARTS.items():
        both = {
            (row["dataset"], row["kind"].removeprefix("distinct-")): [
                float(row["undecoded_error"]),
                float(row["error"]),
            ]
            for row in rows
            if (_name(row), row["seed"]) == (name, "0")
        }
        found[label] = [both[p] if p[:2] == places[0] else both[p][:1] for p in places]
    return found


def whole() -> dict[str, Cells]:
    """Undecoded and decoded error of the newer methods on whole streams, seed 0."""
    places = [("cifar10-c", "wrn16-2"), ("cifar100-c", "resnext29")]
    found: dict[str, Cells] = {}
    for row in (r for r in load("compare/whole") if r["seed"] == "0"):
        cells = found.setdefault(_name(row), [None, None])
        cells[places.index((row["dataset"], row["model"]))] = two_errors(row)
    return found


def precisions() -> dict[str, Cells]:
    """Undecoded errors in float32 and in float16, of streams that were run in both."""
    places = [
        (data, model, kind)
        for data, model in (("cifar10-c", "wrn16-2"), ("cifar100-c", "resnext29"))
        for kind in ("ptta", "ctta", "domains-10000")
    ]
    found: dict[str, Cells] = {}
    for name in ("multipool", "rotta", "petta", "resitta"):
        plain, half = (_in_precision(name, wanted) for wanted in ("float32", "fp16"))
        found[name] = [[plain[p], half[p]] if p in plain and p in half else None for p in places]
    return found


def _in_precision(name: str, wanted: str) -> dict[tuple[str, str, str], float]:
    """Return undecoded errors by dataset, model and kind, seed 0."""
    found = {}
    for row in (r for file in ("compare", "whole", "precision") for r in load(f"compare/{file}")):
        parts = json.loads(row["certificate"] or "[]")
        said = {part["method"]["precision"] for part in parts} or {"float32"}  # older rows
        if (_name(row), row["seed"], said) == (name, "0", {wanted}) and row["undecoded_error"]:
            place = row["dataset"], row["model"], row["kind"]
            found[place] = float(row["undecoded_error"])
    return found


def without_batchnorm(file: str) -> dict[str, Cells]:
    """Undecoded and decoded error of every method with a model of other norms."""
    places = [(k, d) for k in ("ptta", "ctta") for d in ("cifar10-c", "cifar100-c")]
    found: dict[str, Cells] = {}
    short = (r for r in load(f"compare/{file}") if r["kind"] in ("ptta", "ctta"))
    for row in short:
        cells = found.setdefault(row["method"], [None] * len(places))
        cells[places.index((row["kind"], row["dataset"]))] = two_errors(row)
    return found


def put_in(seeds: str = "0", methods: tuple[str, ...] = ()) -> dict[str, Cells]:
    """The same with small models as they are, and with BatchNorm put in: means over seeds."""
    models, sets = ("wrn28-1-gn", "vit-tiny-32"), ("cifar10-c", "cifar100-c")
    places = list(product(models, sets, ("ptta", "ctta")))
    found: dict[str, list[list[list[float]]]] = {}
    for row in load("compare/batchnorm"):
        name = f"{row['method']} +" if row["batchnorm"] else row["method"]
        if row["seed"] in seeds and name in (methods or (name,)):
            cells = found.setdefault(name, [[] for _ in places])
            cells[places.index((row["model"], row["dataset"], row["kind"]))].append(two_errors(row))
    assert all(len(cell) in (0, len(seeds)) for cells in found.values() for cell in cells)
    return {  # an empty cell, of a method that was not run or cannot, asks for a dash
        name: [[mean(part) for part in zip(*cell, strict=True)] for cell in cells]
        for name, cells in found.items()
    }


def put_in_whole() -> dict[str, Cells]:
    """The same with BatchNorm put in, over whole streams in runs, seed 0."""
    places = list(product(("wrn28-1-gn", "vit-tiny-32"), ("cifar10-c", "cifar100-c")))
    found: dict[str, Cells] = {}
    for row in load("compare/batchnorm-whole"):
        cells = found.setdefault(f"{row['method']} +", [[] for _ in places])
        cells[places.index((row["model"], row["dataset"]))] = two_errors(row)
    return found


def whole_without_batchnorm() -> dict[str, Cells]:
    """The same over whole streams in runs, both models."""
    files = [(f, d) for f in ("layernorm", "groupnorm") for d in ("cifar10-c", "cifar100-c")]
    found: dict[str, Cells] = {}
    for place, (file, dataset) in enumerate(files):
        for row in load(f"compare/{file}"):
            if (row["kind"], row["dataset"]) == ("domains-10000", dataset):
                cells = found.setdefault(row["method"], [None] * len(files))
                cells[place] = two_errors(row)
    return found


def models() -> dict[str, Cells]:
    """Undecoded and decoded error with larger models, seed 0."""
    places = [(d, k) for d in ("cifar10-c", "tiny-imagenet-c") for k in ("ptta", "ctta")]
    found: dict[str, Cells] = {}
    for row in (r for r in load("compare/models") if r["seed"] == "0"):
        cells = found.setdefault(_name(row), [None] * len(places))
        cells[places.index((row["dataset"], row["kind"]))] = two_errors(row)
    return found


def gradual() -> dict[str, Cells]:
    """Undecoded errors where severity climbs and falls, in the order of the page's columns."""
    names = "rmt multipool tent eata roid bn mecta tribe resitta+mcm+ rotta+mcm+ petta rotta neo"
    columns = [*names.split(), "source", "lame", "note"]
    found: dict[str, Cells] = {
        name: [None] * len(columns) for name in ("CIFAR-10-C", "CIFAR-100-C")
    }
    for row in load("compare/gradual"):
        place = row["dataset"].upper().replace("R1", "R-1")
        found[place][columns.index(_name(row))] = [float(row["undecoded_error"])]
    return found


def learned() -> dict[str, Cells]:
    """Undecoded errors of multipool with and without learning, three seeds."""
    kinds = ("ptta", "domains-250", "gamma-1", "ctta", "mixed")
    names = {
        "multipool before its second look": "multipool",
        "nothing learned, updates every 128": _BEFORE,
        "learned from every batch, updates every 128": (
            "multipool:learn_until=1000000000:update_every=128"
        ),
    }
    rows = [*load("compare/learning"), *load("compare/ablation")]
    found: dict[str, Cells] = {}
    for label, name in names.items():
        found[label] = [
            [mean(float(r["undecoded_error"]) for r in rows if _is(r, name, data, kind))]
            for data in ("cifar10-c", "cifar100-c")
            for kind in kinds
        ]
    found["best other without source images"] = [None] * (2 * len(kinds))  # of the tables above
    return found


def _is(row: Mapping[str, str], name: str, dataset: str, kind: str) -> bool:
    there = (row["dataset"], row["kind"], row["model"])
    return _name(row) == name and there == (dataset, kind, "wrn16-2")


_BEFORE = "multipool:lr=0:update_every=128"  # it learned by gradients
_PARTS = {
    "as it is": "multipool",
    "no second look (again=0)": "multipool:again=0.0",
    "nothing learned (lr=0)": "multipool:lr=0.0",
    "one pool only (most=1)": "multipool:most=1",
    "classes in runs not noticed (likeness=0)": "multipool:likeness=0.0",
    "the source's statistics never used (prior=0.001)": "multipool:prior=0.001",
    "no larger threshold in runs (runs=0)": "multipool:runs=0.0",
    'bank: the class-balanced pool (memory="single")': "multipool+single",
    'bank: the paper\'s memory (memory="mcm")': "multipool+mcm",
}


def _name(row: Mapping[str, str]) -> str:
    own = "mcm+" if row["method"].startswith("multipool") else "single"
    return row["method"] + ("" if row["memory"] in ("", own) else f"+{row['memory']}")


def regrets() -> dict[str, Cells]:
    """Mean and worst regret without the decoder, and streams worse than the frozen model's."""
    by_stream: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in load("compare/compare"):
        name = _name(row)
        stream = (row["dataset"], row["model"], row["kind"])
        by_stream[stream][name].append(float(row["undecoded_error"] or row["error"]))
    streams = [
        {name: mean(found) for name, found in stream.items()}
        for stream in by_stream.values()
        if len(stream) > 2  # batch-1, recurring and domains-10000 were run with few methods only
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
