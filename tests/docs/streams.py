"""What the tables over whole and short streams must say, from their rows.

A function returns, for each row of its table by the first cell, what the other cells must hold:
numbers in order, or None for what no row of ours decides (the paper's numbers, words).
"""

from __future__ import annotations

from rows import Row, average, by_seed, corruptions, gain, load, pick, spread

Cells = list[list[float] | None]
HOSTS = {"RoTTA": "rotta", "PeTTA": "petta", "ResiTTA": "resitta"}
MEMORIES = ("single", "mcm", "mcm+")
SHORT, WHOLE = "cifar100c-resnext29-1000", "cifar100c-resnext29-full"
TINY, CIFAR10 = "tinyimagenetc-resnet18-2000", "cifar10c-wrn28-10-2000"
WIDE = "cifar10c-wrn28-10-full"


def host_rows(name: str, method: str) -> list[list[Row]]:
    """Return a host's rows with its own pool, with ``mcm`` and with ``mcm+``."""
    plain: dict[str, str] = {"source": "test"} if method == "petta" else {}
    if name == SHORT:
        plain["precision"] = "float32"
    if name == CIFAR10:
        plain["run_share"] = ""
    return [pick(name, method=method, memory=memory, **plain) for memory in MEMORIES]


def hosts(name: str) -> dict[str, Cells]:
    """Errors and gains of the three hosts; the last column is the paper's."""
    found: dict[str, Cells] = {
        "source": [[average(pick(name, method="source"))], None, None, None, None, None]
    }
    for label, method in HOSTS.items():
        own, mcm, plus = host_rows(name, method)
        found[label] = [
            [average(own)], [average(mcm)], gain(mcm, own), [average(plus)], gain(plus, own), None
        ]  # fmt: skip
    return found


def seeds(name: str, paper: bool) -> dict[str, Cells]:
    """The same with one number a seed."""
    found: dict[str, Cells] = {}
    for label, method in HOSTS.items():
        own, mcm, plus = host_rows(name, method)
        singly = [
            [errors for _, errors in sorted(by_seed(rows).items())] for rows in (own, mcm, plus)
        ]
        cells: Cells = [singly[0], singly[1], gain(mcm, own), singly[2], gain(plus, own)]
        found[label] = [*cells, None] if paper else cells
    return found


def wide_whole() -> dict[str, Cells]:
    """Errors with the paper's WRN-28-10 on whole streams; the paper's numbers beside them."""
    names = {"source": "source", "BN": "bn", "TENT": "tent", **HOSTS}
    found: dict[str, Cells] = {}
    for label, method in names.items():
        rows = {r["memory"]: r for r in load(WIDE) if r["method"] == method}
        own = rows.get("", rows.get("single"))
        assert own is not None
        mcm = [float(rows["mcm"]["error"])] if "mcm" in rows else None
        found[label] = [[float(own["error"])], None, mcm, None]
    return found


WIDE_EVERY = "compare/wide-whole"
# What the rows of the table of every method with WRN-28-10 are called; others by their own name.
_WIDE = {
    **{"source": "source", "bn": "BN", "pl": "PL", "lame": "LAME, kNN", "rdumb": "RDumb"},
    **{"lame:affinity=rbf": "LAME, RBF", "multipool": "multipool", "unmix-tns": "UnMix-TNS"},
    **{"deyo": "DeYO", "sotta": "SoTTA", "membn": "MemBN", "ecotta": "EcoTTA"},
    **{method: label for label, method in HOSTS.items()},
}


def wide_every() -> dict[str, Cells]:
    """Undecoded and decoded errors of all methods there; some were run without a decoder only."""
    found: dict[str, Cells] = {}
    for name in (WIDE, WIDE_EVERY):
        for row in load(name):
            if row["seed"] != "0":
                continue
            undecoded = row.get("undecoded_error")
            decoded = [float(row["error"])] if undecoded else []
            found[_wide_label(row)] = [[float(undecoded or row["error"])], None, decoded]
    return found


def wide_seeds() -> dict[str, Cells]:
    """Undecoded and decoded errors, means of three seeds, and the decoded one of each seed."""
    rows = [row for row in load(WIDE_EVERY) if row["seed"] in "012"]
    found: dict[str, Cells] = {}
    for label in {_wide_label(row) for row in rows if row["seed"] == "2"}:
        mine = sorted((r for r in rows if _wide_label(r) == label), key=lambda r: int(r["seed"]))
        assert len(mine) == 3
        decoded = [float(row["error"]) for row in mine]
        plain = [float(row["undecoded_error"]) for row in mine]
        found[label] = [[sum(plain) / 3], [sum(decoded) / 3], decoded]
    return found


def _wide_label(row: dict[str, str]) -> str:
    """Return what a row of these two is called in tables."""
    label = _WIDE.get(row["method"], row["method"].upper())
    own = row["memory"] not in ("mcm", "mcm+") or row["method"] == "multipool"
    return label if own else f"{label} {row['memory']}"


def by_corruption(name: str) -> dict[str, Cells]:
    """The error of each corruption."""
    found: dict[str, Cells] = {"source": [*corruptions(pick(name, method="source"))]}
    for label, method in HOSTS.items():
        for suffix, rows in zip(("", " mcm", " mcm+"), host_rows(name, method), strict=True):
            found[label + suffix] = [*corruptions(rows)]
    return found


def short_and_whole() -> dict[str, Cells]:
    """Short and whole streams side by side."""
    found: dict[str, Cells] = {}
    for label, method in HOSTS.items():
        pairs = zip(host_rows(SHORT, method), host_rows(WHOLE, method), strict=True)
        found[label] = [None, *([average(short), average(whole)] for short, whole in pairs)]
    first = found.pop("RoTTA")
    first[0] = [average(pick(name, method="source")) for name in (SHORT, WHOLE)]
    return {"RoTTA, short / whole stream": first, **found}


# Rows of the table of every method: what they are called there, in the files, and their options.
_METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "source": ("source", {}),
    "BN": ("bn", {}),
    "PL": ("pl", {}),
    "TENT": ("tent", {}),
    "CoTTA, 2,000 images": ("cotta", {}),
    "RDumb": ("rdumb", {}),
    "ROID": ("roid", {}),
    "TRIBE": ("tribe", {}),
    "NEO": ("neo", {}),
    "EATA": ("eata", {}),
    "RMT, 2,000 source images": ("rmt", {}),
    "MECTA": ("mecta", {}),
}


def every_method() -> dict[str, Cells]:
    """Three sets; the paper's columns are left to its own tables."""
    found: dict[str, Cells] = {}
    for label, (method, options) in _METHODS.items():
        found[label] = _three([(method, options)])
    found["RMT, 2,000 source images"][-1] = None  # withdrawn
    affinities = [("lame", {"affinity": "knn"}), ("lame", {"affinity": "rbf"})]
    found["LAME, kNN (RBF)"] = _three(affinities)
    found["NOTE / mcm / mcm+"] = _three([("note", {"memory": m}) for m in MEMORIES])
    reset = [
        average(pick("methods-full", method="rotta", dataset=name, reset_every="1000"))
        for name in ("cifar10-c", "cifar100-c")
    ]
    found["RoTTA, reset every 1,000"] = [[reset[0]], None, [reset[1]], None, None]
    for label, method in HOSTS.items():
        small = [
            average(
                pick("methods-full", method=method, memory=m, dataset="cifar10-c", reset_every="")
            )
            for m in MEMORIES
        ]
        large = [average(rows) for rows in host_rows(WHOLE, method)]
        tiny = [by_seed(rows)[f"{method} 0"] for rows in host_rows(TINY, method)]
        found[f"{label} / mcm / mcm+"] = [small, None, large, None, tiny]
    return found


def _three(runs: list[tuple[str, dict[str, str]]]) -> Cells:
    """Return the cells of one method on CIFAR-10-C, CIFAR-100-C and Tiny-ImageNet-C."""
    found = [
        [average(_run(dataset, method, options)) for method, options in runs]
        for dataset in ("cifar10-c", "cifar100-c", "tiny-imagenet-c")
        if (dataset, runs[0][0]) != ("tiny-imagenet-c", "rmt")
    ]
    return [found[0], None, found[1], None, found[-1]]


def _run(dataset: str, method: str, options: dict[str, str]) -> list[Row]:
    if dataset == "tiny-imagenet-c":
        rows = pick("methods-tiny-2000", method=method, **options)
    elif (method, dataset) == ("source", "cifar100-c"):
        rows = pick(WHOLE, method=method)
    else:
        rows = pick("methods-full", method=method, dataset=dataset, **options)
    return rows


def tent_and_guard() -> dict[str, Cells]:
    """TENT on the whole stream; the last column counts restorations."""
    kinds = {
        "bn": {"method": "bn"},
        "TENT": {"method": "tent", "guard": "False"},
        "TENT, guard": {"method": "tent", "fallback": "snapshot"},
        'TENT, guard, fallback="source"': {"method": "tent", "fallback": "source"},
    }
    source = average(pick(WHOLE, method="source"))
    found: dict[str, Cells] = {"source": [[source], None, None, [source], None]}
    for label, wanted in kinds.items():
        rows = pick("tent-guard-full", **wanted)
        singly = [[value] for _, value in sorted(by_seed(rows).items())]
        found[label] = [*singly, [average(rows)], None]
    return found


def source_models() -> dict[str, Cells]:
    """The source model's error of each corruption."""
    rows = {
        "CIFAR-10-C, WRN-16-2": pick("methods-full", method="source", dataset="cifar10-c"),
        "CIFAR-10-C, WRN-28-10, 2,000 images": pick(CIFAR10, method="source"),
        "CIFAR-100-C, ResNeXt-29": pick(WHOLE, method="source"),
        "CIFAR-100-C, WRN-16-2, 1,000 images": pick("source-cifar100c-wrn16-2-1000"),
        "Tiny-ImageNet-C, ResNet-18": pick(TINY, method="source", samples="150000"),
    }
    found: dict[str, Cells] = {
        label: [[average(chosen)], *corruptions(chosen)] for label, chosen in rows.items()
    }
    return found


def shapes() -> dict[str, Cells]:
    """The embedded dataset: RoTTA against the source model, by seed."""
    name = "shapes-c-500"
    source = pick(name, method="source")
    base = {row["seed"]: float(row["error"]) for row in source}
    found: dict[str, Cells] = {"source": [[average(source)], None]}
    for label, memory in {"RoTTA": "single", "RoTTA mcm": "mcm", "RoTTA mcm+": "mcm+"}.items():
        rows = pick(name, method="rotta", memory=memory)
        found[label] = [[average(rows)], spread(float(r["error"]) - base[r["seed"]] for r in rows)]
    return found
