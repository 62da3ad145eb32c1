"""What the tables of streams in which no image comes twice must say."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

from explorations import Cells
from regrets import TEN
from rows import Row, load

_KINDS = [f"distinct-{name}" for name in TEN.split()]
_PLACES = [(d, k) for d in ("cifar10-c", "cifar100-c") for k in _KINDS]
_BOTH = ("undecoded_error", "error")


def cells(dataset: str) -> Cells:
    """Return undecoded and decoded error of each method on each kind of stream, seed 0."""
    found: Cells = {}
    for row in (r for r in _seed("0") if r["dataset"] == dataset):
        line = found.setdefault(row["method"], [None] * len(_KINDS))
        line[_KINDS.index(row["kind"])] = [float(row[column]) for column in _BOTH]
    return found


def regrets() -> Cells:
    """Return mean and worst regret, and columns worse than source, without and with the decoder."""
    found: Cells = defaultdict(list)
    for column in _BOTH:
        streams = [
            {r["method"]: float(r[column]) for r in _seed("0") if _place(r) == place}
            for place in _PLACES
        ]
        # LAME reads neighbours as the decoder does, so without it no method is measured by it.
        apart = {"lame"} if column == "undecoded_error" else set()
        for name in streams[0]:
            gaps = [s[name] - min(e for n, e in s.items() if n not in apart) for s in streams]
            worse = sum(s[name] > s["source"] for s in streams)
            count = None if name == "source" else [float(worse), float(len(streams))]
            found[name] += [[mean(gaps)], [max(gaps)], count]
    return dict(found)


def mirrored() -> Cells:
    """Return the same regrets where every method's model looks at each image twice."""
    rows = load("compare/mirrored")
    found: Cells = defaultdict(list)
    for column in _BOTH:
        streams: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for row in rows:
            streams[_place(row)][row["method"]] = float(row[column])
        assert len(streams) == len(_PLACES)
        columns = float(len(streams))
        for name in streams["cifar10-c", "ptta"]:
            gaps = [s[name] - min(s.values()) for s in streams.values()]
            found[name] += [[mean(gaps)], [max(gaps)], [sum(gap == 0 for gap in gaps), columns]]
    return dict(found)


def seeds() -> Cells:
    """Return undecoded errors of two methods by seed, where both were run with several."""
    found: Cells = {}
    for method in ("multipool", "rmt"):
        rows = [r for r in load("compare/distinct") if r["method"] == method]
        for seed in ("0", "1"):
            by_place = {_place(r): float(r["undecoded_error"]) for r in rows if r["seed"] == seed}
            found[f"{method}, seed {seed}"] = [[by_place[place]] for place in _SEVERAL]
    return found


_SEVERAL = [
    ("cifar10-c", "distinct-ctta"),
    *(
        ("cifar100-c", f"distinct-{k}")
        for k in ["ptta", "domains-250", "gamma-1", "ctta", "batch-200"]
    ),
]


def three() -> Cells:
    """Return multipool's undecoded and decoded errors, means of three seeds."""
    return {
        label: [_mean((dataset, kind), "multipool") for kind in _KINDS]
        for label, dataset in (("CIFAR-10-C", "cifar10-c"), ("CIFAR-100-C", "cifar100-c"))
    }


def nearest() -> Cells:
    """Return errors, means of three seeds, of multipool and of who is nearest to it."""
    return {
        kind.removeprefix("distinct-"): [_mean(("cifar100-c", kind), m) for m in _NEAREST]
        for kind in [f"distinct-{k}" for k in ("gamma-0.01", "domains-250", "gamma-1", "batch-16")]
    }


_NEAREST = ("multipool", "roid", "cmf", "membn", "rmt", "deyo", "rdumb", "tent")


def _mean(place: tuple[str, str], method: str) -> list[float] | None:
    rows = [r for r in load("compare/distinct") if _place(r) == place and r["method"] == method]
    if sorted(r["seed"] for r in rows) != ["0", "1", "2"]:
        return None
    both = [mean(float(r[column]) for r in rows) for column in _BOTH]
    return both[:1] if abs(both[0] - both[1]) < 0.005 else both


def explored() -> Cells:
    """Return what was learned of the same images and of others, from the rows of exploration."""
    rows = {
        (r["dataset"], r["protocol"], r["images"], r["method"], r["options"]): r
        for r in load("explore-19-distinct")
        if r["domains"] == "made" and r["seed"] == "11"
    }
    labels = {
        "multipool as it is": ("multipool", ""),
        "RMT": ("rmt", ""),
        "all weights of the pools, lr 0.0001": ("multipool, all weights", "lr=0.0001"),
        "and decoded labels in runs, every 64 images": (
            "multipool, all weights",
            "every=64 lr=0.0001 decoded_labels=1",
        ),
    }
    places = [(d, "ctta", i) for d in ("cifar10", "cifar100") for i in ("repeated", "distinct")]
    places += [(d, "ptta", "distinct") for d in ("cifar10", "cifar100")]
    found: Cells = {}
    for label, method in labels.items():
        found[label] = [_both(rows.get((*place, *method))) for place in places]
    return found


def long_runs() -> Cells:
    """Return what rules for long runs brought, means of seeds, from the rows of exploration."""
    found: Cells = {}
    for rule in ("before", "adopted"):
        sums: dict[tuple[str, ...], list[list[float]]] = defaultdict(list)
        for row in load("explore-20-long-runs"):
            if row["rule"] == rule:
                place = tuple(row[c] for c in ("dataset", "domains", "protocol", "images_a_domain"))
                sums[place].append([float(row[column]) for column in _BOTH])
        both = [[mean(column) for column in zip(*sums[place], strict=True)] for place in _LONG]
        found[rule] = [cell[:1] if cell[0] == cell[1] else cell for cell in both]
    return found


_RUNS = "ptta gamma 0.1"
_LONG = [
    ("cifar10", "extra", _RUNS, "10000"),
    ("cifar10", "extra", _RUNS, "2500"),
    ("cifar10", "made-up", _RUNS, "650"),
    ("cifar10", "mild", _RUNS, "700"),
    ("cifar10", "made-up", "mixed", "650"),
    ("cifar10", "made-up", "interleaved", "650"),
    ("cifar100", "made-up", _RUNS, "650"),
    ("cifar100", "extra", "ptta gamma 0.01", "2500"),
]


def _both(row: Row | None) -> list[float] | None:
    """Return the undecoded error, and the decoded one where it is another."""
    if row is None:
        return None
    both = [float(row[column]) for column in _BOTH]
    return both[:1] if both[0] == both[1] else both


def _seed(seed: str) -> list[Row]:
    return [row for row in load("compare/distinct") if row["seed"] == seed]


def _place(row: Row) -> tuple[str, str]:
    return row["dataset"], row["kind"]
