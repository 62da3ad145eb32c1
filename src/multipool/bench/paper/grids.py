"""The grids of the paper: for every id, which experiment stands in which row and column.

Rows and columns are named as in the paper's numbers (``bench/paper``); what has no number there
is ours. All but table 1 and table S4 are CIFAR-100-C, all ablations PeTTA (Sec. 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from multipool.bench.paper.case import Case
from multipool.bench.paper.cell import TableEntry
from multipool.data.corruptions import COMMON

HOSTS = {"RoTTA": "rotta", "PeTTA": "petta", "ResiTTA": "resitta"}
DATASETS = {
    "CIFAR10-C": "cifar10-c",
    "CIFAR100-C": "cifar100-c",
    "ImageNet-C": "imagenet-c",
    "DomainNet": "domainnet126",
}
RESET_ROTTA = "RDumb as RoTTA with resets"
_RESET_EVERY = 1000  # updates, RDumb's period
SOURCE, PETTA, MCM = Case("source"), Case("petta", "single"), Case("petta", "mcm")
PLUS = Case("petta", "mcm+")
PLAIN: Mapping[str, Case] = {
    "Source": SOURCE,
    "BN": Case("bn"),
    "PL": Case("pl"),
    "TENT": Case("tent"),
    "LAME": Case("lame"),
    "LAME (RBF)": Case("lame", options={"affinity": "rbf"}),
    "CoTTA": Case("cotta"),
    "NOTE": Case("note", "single"),
    "RDumb": Case("rdumb"),
    RESET_ROTTA: Case("rotta", "single", reset_every=_RESET_EVERY),
    "ROID": Case("roid"),
    "TRIBE": Case("tribe"),
    "NEO": Case("neo"),
    "EATA": Case("eata"),
    "RMT": Case("rmt"),
    "MECTA": Case("mecta"),
    "UnMix-TNS": Case("unmix-tns"),
    "SAR": Case("sar"),
    "DeYO": Case("deyo"),
    "CMF": Case("cmf"),
    "SoTTA": Case("sotta", "single"),
    "ReservoirTTA": Case("reservoir"),
    "AdaContrast": Case("adacontrast"),
    "EcoTTA": Case("ecotta"),
    "MemBN": Case("membn"),
    "TENT with COME": Case("tent", options={"loss": "come"}),
}
PIXEL_THRESHOLDS = (0.1, 0.3, 0.5, 0.7)
FEATURE_THRESHOLDS = (2.5, 5.0, 10.0, 12.5, 15.0, 17.5, 20.0)
DISTANCES = {
    "Cosine": ("cosine", (0.005, 0.01, 0.02, 0.05, 0.1)),
    "Mahalanobis": ("mahalanobis", (0.5, 1.0, 2.0, 3.0, 4.0)),
    "Manhattan (L1)": ("l1", (0.2, 0.3, 0.5, 0.7, 1.0)),
    "Euclidean (L2)": ("l2", (0.1, 0.2, 0.3, 0.5, 0.7)),
}
CLUSTERS = (1, 2, 3, 4, 5, 7, 10)
SIZES = (64, 128, 192, 256, 320)
ROUNDS = 20
GRID, BY_DOMAIN, TIMES = "All thresholds", "Error by corruption", "Time on CIFAR100-C"


def mcm(**options: object) -> Case:
    """Return PeTTA with the multi-cluster memory; options that are the default are left out.

    The run is then the same as that of another table.

    >>> mcm(threshold=0.3, distance="l2") == MCM
    True
    """
    usual = {"threshold": 0.3, "distance": "l2", "max_clusters": 5, "consolidation": "acc"}
    if options.get("distance", "l2") != "l2" or "descriptor" in options:
        usual.pop("threshold")
    kept = {key: value for key, value in options.items() if usual.get(key) != value}
    return replace(MCM, memory_options=kept)


def table1() -> Iterator[TableEntry]:
    """Yield every method on four datasets, a part for each dataset, and the times on one."""
    for column, dataset in DATASETS.items():
        for row, case, against in _all_methods(dataset):
            yield TableEntry(row, column, case, against=against, part=column)
    for row, case, _ in _all_methods("cifar100-c"):
        yield TableEntry(row, "time", case, measure="time", part=TIMES)


def _all_methods(dataset: str) -> Iterator[tuple[str, Case, str]]:
    """Yield row, case and the row that it is compared with."""
    for row, case in PLAIN.items():
        yield row, replace(case, dataset=dataset), ""
    for host, method in HOSTS.items():
        yield host, Case(method, "single", dataset=dataset), ""
        yield f"{host} + MCM", Case(method, "mcm", dataset=dataset), host
        yield f"{host} + mcm+", Case(method, "mcm+", dataset=dataset), host


def table2() -> Iterator[TableEntry]:
    """Yield the components, added one by one."""
    flat, kept = {"retrieval": "proportional"}, {"consolidation": "none"}
    rows = {
        "PeTTA": PETTA,
        "MCM": mcm(**flat, **kept),
        "MCM + ACC": mcm(**flat),
        "MCM + UCR": mcm(**kept),
        "MCM + ACC + UCR": MCM,
        "mcm+": PLUS,
    }
    for row, case in rows.items():
        yield TableEntry(row, "error", case, against="" if row == "PeTTA" else "PeTTA")


def table3() -> Iterator[TableEntry]:
    """Yield descriptors and thresholds with their times, and all thresholds of the CNN feature."""
    rows = {"CNN Feature (5.0)": mcm(descriptor="feature", threshold=5.0)}
    rows |= {f"Pixel Stat ({tau})": mcm(threshold=tau) for tau in PIXEL_THRESHOLDS}
    yield from _with_times(rows, "Pixel Stat (0.3)")
    for tau in FEATURE_THRESHOLDS:
        case = mcm(descriptor="feature", threshold=tau)
        yield TableEntry(f"CNN Feature ({tau})", "error", case, part=GRID)


def table4() -> Iterator[TableEntry]:
    """Yield the strategies of consolidation with their times."""
    names = {"GCC": "gcc", "SCM": "smallest", "LRU": "lru", "ACC": "acc"}
    yield from _with_times({row: mcm(consolidation=name) for row, name in names.items()}, "ACC")


def _with_times(rows: Mapping[str, Case], reference: str) -> Iterator[TableEntry]:
    for row, case in rows.items():
        yield TableEntry(row, "error", case, against="" if row == reference else reference)
    for row, case in rows.items():
        yield TableEntry(row, "time", case, measure="time")


def recurring(
    rows: Mapping[str, Case], columns: Iterable[str], reference: str
) -> Iterator[TableEntry]:
    """Yield rounds and average of every row; what does not learn is run once through."""
    for row, case in rows.items():
        whole = case if case == SOURCE else replace(case, protocol="recurring")
        against = reference if case.memory in ("mcm", "mcm+") and row != reference else ""
        for column in columns:
            yield TableEntry(row, column, whole, measure=column, against=against)


def table5() -> Iterator[TableEntry]:
    """Yield round 1 and the average."""
    plain = {name: PLAIN[name] for name in ("Source", "CoTTA")}
    plain |= {"RoTTA": Case("rotta", "single")}
    plain |= {name: PLAIN[name] for name in ("RDumb", "TRIBE")}
    rows = {**plain, "PeTTA": PETTA, "PeTTA + MCM": MCM, "PeTTA + mcm+": PLUS}
    yield from recurring(rows, ("round 1", "average"), "PeTTA")


_ALL_ROUNDS = (*(f"round {number}" for number in range(1, ROUNDS + 1)), "average")


def table_s1() -> Iterator[TableEntry]:
    """Yield the thresholds, round by round."""
    rows = {f"threshold {tau}": mcm(threshold=tau) for tau in PIXEL_THRESHOLDS}
    yield from recurring(rows, _ALL_ROUNDS, "threshold 0.3")


def table_s2() -> Iterator[TableEntry]:
    """Yield every distance at every threshold of its grid; the best are found afterwards."""
    for name, (distance, thresholds) in DISTANCES.items():
        for tau in thresholds:
            case = mcm(distance=distance, threshold=tau)
            own = name == "Euclidean (L2)" and tau == 0.3
            against = "" if own else "Euclidean (L2), 0.3"
            yield TableEntry(f"{name}, {tau}", "error", case, against=against, part=GRID)


def _per_round(dataset: str) -> Iterator[TableEntry]:
    names = ("Source", "LAME", "CoTTA", "EATA", "RMT", "MECTA")
    rows = {name: PLAIN[name] for name in names}
    rows |= {"RoTTA": Case("rotta", "single"), "RDumb": PLAIN["RDumb"]}
    rows |= {name: PLAIN[name] for name in (RESET_ROTTA, "ROID", "TRIBE")}
    rows |= {"PeTTA": PETTA, "PeTTA + MCM": MCM, "PeTTA + mcm+": PLUS}
    for entry in recurring(rows, _ALL_ROUNDS, "PeTTA"):
        yield replace(entry, case=replace(entry.case, dataset=dataset))


def table_s3() -> Iterator[TableEntry]:
    """Yield the methods on recurring CIFAR-100-C, round by round."""
    yield from _per_round("cifar100-c")


def table_s4() -> Iterator[TableEntry]:
    """Yield the methods on recurring CIFAR-10-C, round by round."""
    yield from _per_round("cifar10-c")


def fig3() -> Iterator[TableEntry]:
    """Yield error, time and memory of single pools and of clusters of 64, at equal sizes."""
    for host, method in HOSTS.items():
        for size in SIZES:
            larger = {} if size == 64 else {"capacity": size}
            fewer = {} if size == 320 else {"max_clusters": size // 64}
            for memory, options in (("single", larger), ("mcm", fewer)):
                row, case = f"{host}, {memory} {size}", Case(method, memory, options)
                base = f"{host}, single 64"
                yield TableEntry(row, "error", case, against="" if row == base else base)
                for measure in ("time", "bank", "gpu"):
                    yield TableEntry(row, measure, case, measure=measure)


def fig_s1() -> Iterator[TableEntry]:
    """Yield error by the most clusters, and by corruption."""
    for most in CLUSTERS:
        case, row = mcm(max_clusters=most), f"K_max {most}"
        yield TableEntry(row, "error", case, against="" if most == 5 else "K_max 5")
    for most in CLUSTERS:
        for domain in COMMON:
            case = mcm(max_clusters=most)
            yield TableEntry(f"K_max {most}", domain, case, f"error in {domain}", part=BY_DOMAIN)


GRIDS: Mapping[str, Callable[[], Iterator[TableEntry]]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "table5": table5,
    "fig3": fig3,
    "tableS1": table_s1,
    "tableS2": table_s2,
    "tableS3": table_s3,
    "tableS4": table_s4,
    "figS1": fig_s1,
}
