"""What the tables of the explorations must say: differences to the method's own pool."""

from __future__ import annotations

from rows import Row, difference, load, pick

Cells = list[list[float] | None]
FIRST, THIRD = "explore-1-cifar100c-wrn16-2", "explore-3-cifar10c-cifar100c-wrn16-2"
FOURTH, FIFTH = "explore-4-cifar10c-cifar100c-wrn16-2-long", "explore-5-cifar10c-cifar100c-wrn16-2"


def banks(name: str, *labels: str, **wanted: str) -> list[float]:
    """Return the mean difference of each bank to the method's own pool, over hosts and seeds."""
    own = pick(name, bank="single", **wanted)
    return [difference(pick(name, bank=label, **wanted), own)[0] for label in labels]


def first() -> dict[str, Cells]:
    """Two banks a line: the second has its own name in the fourth cell."""
    recents = ("recent64", "recent320", "recent640", "recent2000")
    spread = sorted(banks(FIRST, *recents))
    pairs: list[tuple[str, list[float], list[float]]] = [
        ("the last 64 samples (fifo)", banks(FIRST, "fifo64"), banks(FIRST, "prop")),
        ("the last 256 samples", banks(FIRST, "fifo256"), banks(FIRST, "gated")),
        ("mcm (no fill)", banks(FIRST, "mcm"), banks(FIRST, "cb128", "cb256")),
        ("mcm, fill", banks(FIRST, "mcm-fill"), banks(FIRST, "ld3")),
        (
            "mcm, fill, lambda_d = 0.3 / 0",
            banks(FIRST, "ld03", "ld0"),
            banks(FIRST, "K1", "K1N128", "K1N320"),
        ),
        (
            "mcm, n = 32 / 128 / 256 (fill)",
            banks(FIRST, "n32", "n128", "n256"),
            banks(FIRST, "step", "nofill-step"),
        ),
        (
            "mcm, quota of 2 a class",
            banks(FIRST, "q2"),
            banks(FIRST, "q2-t01-recent320", "q2-t05-recent640"),
        ),
        ("mcm, expiry of clusters", banks(FIRST, "exp640"), [spread[0], spread[-1]]),
    ]
    return {label: [left, None, None, right] for label, left, right in pairs}


def third() -> dict[str, Cells]:
    """The same banks on two sets."""
    lines = {
        "mcm": ("mcm",),
        "the last 64 samples": ("fifo64",),
        "newest first, by age alone, at most 2 of a class in a cluster": ("P2",),
        "the same, at most 4 / 6 / 8": ("P4", "P6", "P8"),
        "at most 6, newest first in equal shares, filled (mcm+)": ("U6",),
    }
    return {
        label: [banks(THIRD, *chosen, dataset=name) for name in ("cifar10-c", "cifar100-c")]
        for label, chosen in lines.items()
    }


def fourth() -> dict[str, Cells]:
    """Whole domains: two hosts and two sets."""
    lines = {
        "mcm+": ("", ""),
        "and uncertainty_weight=1": ("1.0", ""),
        'and uncertainty_weight=1, replacement="if_worse"': ("1.0", "if_worse"),
        'and uncertainty_weight=2, replacement="if_worse"': ("2.0", "if_worse"),
    }
    columns = (("rotta", "cifar10-c"), ("petta", "cifar10-c"), ("rotta", "cifar100-c"))

    def cell(method: str, dataset: str, weight: str, rule: str) -> list[float]:
        own = pick(FOURTH, method=method, dataset=dataset, memory="single")
        chosen = {"memory": "mcm+", "uncertainty_weight": weight, "replacement": rule}
        return difference(pick(FOURTH, method=method, dataset=dataset, **chosen), own)

    return {
        label: [cell(method, dataset, *options) for method, dataset in columns]
        for label, options in lines.items()
    }


def fifth() -> dict[str, Cells]:
    """Rules for runs of one class, four lengths of a domain, RoTTA on CIFAR-10-C."""
    worse = "uncertainty_weight=2.0 replacement=if_worse"
    lines: dict[str, dict[str, str]] = {
        "mcm": {"memory": "mcm"},
        "mcm+": {},
        'and uncertainty_weight=2, replacement="if_worse" (part 4)': {"options": worse},
        "and the same with the uncertainty's rank among the last 256": {
            "options": worse,
            "rule": "r",
        },
        "and nobody leaves for the less certain half of the last 256 samples": {"rule": "c0.5"},
        "and nobody leaves for a label below its even share of the last 64": {"rule": "f1"},
        "and while one label has half of the last 64: nobody leaves for the less certain half of"
        " the others": {"rule": "d0.5,v64,c0.5"},
        "the same from a share of 0.7 on": {"rule": "d0.7,v64,c0.5"},
        "the same (half), and they count as that label instead": {"rule": "d0.5,v64,c0.5,y"},
        "run_share=0.7, as built": {"code": "package", "options": "run_share=0.7"},
    }
    lengths = ("1000", "2000", "4000", "10000")
    found: dict[str, Cells] = {
        label: [_rule(length, **wanted) for length in lengths] for label, wanted in lines.items()
    }
    built = _rule("10000", code="package, CPU", options="run_share=0.51")
    found["run_share=0.51, as built (CPU)"] = [None, None, None, built]
    return found


def _rule(length: str, **wanted: str) -> list[float]:
    same: dict[str, str] = {
        "dataset": "cifar10-c",
        "method": "rotta",
        "images_a_domain": length,
        "code": "prototype",
        "rule": "",
        "options": "",
    }
    own: list[Row] = pick(FIFTH, **{**same, "memory": "single"})
    return difference(pick(FIFTH, **{**same, "memory": "mcm+", **wanted}), own)[:1]


_NOT_SHOWN = (
    *("source", "tribe", "rmt", "constant, prior 8", "threshold 0.10", "threshold 0.35"),
    *("described at depth 0.25", "described at depth 0.55"),
)


def sixth() -> dict[str, Cells]:
    """The undecoded error of each rule of multipool on eight streams of the exploration."""
    made, mild, extra = "made-up", "extra-mild", "extra"
    columns = [
        (made, "cifar10", "ptta-1000"), (made, "cifar10", "ctta-1000"),
        (made, "cifar10", "ptta-5000"), (mild, "cifar10", "ptta-1000"),
        (extra, "cifar10", "ptta-5000"), (made, "cifar100", "ptta-1000"),
        (made, "cifar100", "ctta-1000"), (made, "cifar100", "batch-200"),
    ]  # fmt: skip
    found: dict[str, Cells] = {}
    for row in load("explore-6-pools"):
        key = (row["domains"], row["dataset"], row["stream"])
        if key in columns and row["rule"] not in _NOT_SHOWN:
            cells = found.setdefault(row["rule"], [None] * len(columns))
            cells[columns.index(key)] = [float(row["undecoded_error"])]
    return found


_LEARNED = {
    "nothing is learned": ("base",),
    "entropy, lr 0.002": ("ent-2e-3",),
    "entropy and spread over classes, lr 0.002": ("im-2e-3",),
    "ROID's loss without the view, lr 0.004": ("slr-4",),
    "ROID's loss, lr 0.004": ("slr-view-4", "slr-view-4e-3"),
    "ROID's loss, lr 0.008": ("slr-view-8",),
    "ROID's loss, lr 0.008, every fourth batch": ("slr-view-8-256",),
    "mean teacher, symmetric loss, lr 0.004": ("sce-4",),
    "RMT (all weights, labelled source images)": ("rmt",),
    "RMT without source images and prototypes": ("rmt-sour0-cont0",),
    "ROID": ("roid",),
    "TENT": ("tent",),
    "bn": ("bn",),
}


def seventh() -> dict[str, Cells]:
    """The undecoded error of each way to learn on eight streams, and its mean gain over them."""
    shown = [
        (classes, *stream, "64")
        for classes in ("10", "100")
        for stream in (
            ("extra", "ctta", "1000", ""), ("extra", "ctta", "5000", ""),
            ("made", "ctta", "1000", ""), ("made", "ptta", "1000", "0.1"),
        )
    ]  # fmt: skip
    errors: dict[str, dict[tuple[str, ...], float]] = {}
    where = ("classes", "domains", "order", "images_a_domain", "gamma", "batch_size")
    for row in load("explore-7-learning"):
        key = tuple(row[name] for name in where)
        errors.setdefault(row["row"], {})[key] = float(row["undecoded_error"])
    found: dict[str, Cells] = {}
    for label, names in _LEARNED.items():
        own = {key: error for name in names for key, error in errors[name].items()}
        cells: Cells = [[own[key]] if key in own else None for key in shown]
        gains = [own[key] - errors["base"][key] for key in shown if key in own]
        learns = not label.startswith(("RMT", "ROID", "TENT", "bn")) or "loss" in label
        found[label] = [*cells, [sum(gains) / len(gains)] if learns else None]
    return found


def eighth() -> dict[str, Cells]:
    """The undecoded error of what was tried on new pools, on seven streams."""
    shown = [
        ("10", "extra", "ctta", "5000", ""), ("10", "made", "ctta", "1000", ""),
        ("10", "made", "ptta", "1000", "0.1"), ("100", "extra", "ctta", "5000", ""),
        ("100", "made", "ctta", "1000", ""), ("100", "made", "ptta", "1000", "0.1"),
        ("100", "made", "ptta", "1000", "1.0"),
    ]  # fmt: skip
    return _tried(_ON_NEW_POOLS, [("wrn16-2", *stream) for stream in shown])


def eighth_without_batchnorm() -> dict[str, Cells]:
    """The same of learning rates for models without BatchNorm, on the extra corruptions."""
    shown = [
        (model, classes, "extra", order, "1000", gamma)
        for model in ("vit-small-32", "resnet26-gn")
        for classes in ("10", "100")
        for order, gamma in (("ctta", ""), ("ptta", "0.1"))
    ]
    return _tried(_WITHOUT_BATCHNORM, shown)


def _tried(names: dict[str, str], shown: list[tuple[str, ...]]) -> dict[str, Cells]:
    errors = errors_of("explore-8-new-pools")
    return {
        label: [[errors[name, *key]] if (name, *key) in errors else None for key in shown]
        for label, name in names.items()
    }


def errors_of(name: str, column: str = "undecoded_error") -> dict[tuple[str, ...], float]:
    """Return an error by row, model, classes, domains, order, images a domain and gamma."""
    where = ("row", "model", "classes", "domains", "order", "images_a_domain", "gamma")
    return {
        tuple(row[part] for part in where): float(row[column])
        for row in load(name)
        if (row["batch_size"], row["seed"]) == ("64", "11")
    }


_ON_NEW_POOLS = {
    "nothing is learned": "base",
    "learned from a pool's first 512 images": "until512",
    "learned from its first 1,024": "until1024",
    "learned from its first 2,048": "until2048",
    "learned from every batch": "always",
    "all weights, its first 1,024, lr 0.0001": "allroid-1024-1e-4",
    "all weights, its first 1,024, lr 0.0002": "allroid-1024",
    "all weights towards the source's answers, lr 0.0003": "all3-1024-p0",
    "all weights towards the source's answers, lr 0.001": "all-1024-p0",
    "nothing learned, updates every 192 images": "every192",
    "nothing learned, updates every 256": "every256",
    "nothing learned, described by the inner three quarters": "crop75",
}
_WITHOUT_BATCHNORM = {
    "nothing is learned": "base",
    "lr 0.0003": "roid-0.0003-g0",
    "lr 0.001": "roid-0.001-g0",
    "lr 0.001, steps end in runs": "roid-.001-g1",
    "lr 0.004": "roid-0.004-g0",
    "lr 0.001, towards the source's answers": "aff-sce-.001",
    "all weights, lr 0.0001, towards the source's answers": "all-1e-4",
    "all weights, lr 0.00001": "allroid-1e-5",
    "TENT": "tent",
    "SAR": "sar",
    "ROID": "roid",
}
