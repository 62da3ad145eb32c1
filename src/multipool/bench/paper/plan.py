"""The runs that ids need, each of them once; and as a file that a sweep elsewhere reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from multipool.bench.paper.case import Case
from multipool.bench.paper.cell import TableEntry
from multipool.bench.paper.grids import GRIDS
from multipool.bench.paper.setting import Setting
from multipool.core import write_json

_STAND_FOR = "cifar100-c"  # which of the paper's datasets a stand-in is set beside


def entries_of(name: str, setting: Setting) -> list[TableEntry]:
    """Return what stands in a table, as far as the setting asks for it.

    A stand-in takes the place of one dataset: several columns of it would be the same numbers.
    """
    found = list(GRIDS[name]()) if name in GRIDS else []
    if setting.stand_in is not None:
        used = {entry.case.dataset for entry in found}
        chosen = _STAND_FOR if _STAND_FOR in used else next(iter(used), "")
        found = [entry for entry in found if entry.case.dataset == chosen]
    if setting.methods:
        found = [entry for entry in found if entry.case.method in setting.methods]
    rounds = {f"round {number}" for number in range(setting.repeats + 1, 21)}
    return [entry for entry in found if entry.measure not in rounds]


def datasets_of(names: Iterable[str], setting: Setting) -> list[str]:
    """Return the datasets that ids use, in the order of their first use."""
    cases = (entry.case for name in names for entry in entries_of(name, setting))
    return list(dict.fromkeys(setting.dataset(case.dataset) for case in cases))


def cases_of(names: Iterable[str], setting: Setting) -> list[Case]:
    """Return the cases that ids need, each once, in the order of the ids."""
    found: dict[str, Case] = {}
    for name in names:
        for entry in entries_of(name, setting):
            found.setdefault(entry.case.identity(setting, 0), entry.case)
    return list(found.values())


def export(path: str | Path, cases: Iterable[Case], setting: Setting) -> int:
    """Write the runs as a sweep's JSON file and return how many they are.

    Weights and data need not be on this machine.
    """
    cases = list(cases)
    if not cases:
        raise ValueError(
            "there is nothing for a sweep in these ids: figures 1, 4 and S2 look at streams and "
            "memories themselves; use reproduce without --plan"
        )
    runs = [_line(case, setting, seed) for seed, case in _by_seed(cases, setting)]
    base: dict[str, object] = {"device": setting.device}
    if setting.precision != "float32":
        base["precision"] = setting.precision
    if setting.data_dir is not None:
        base["data_dir"] = setting.data_dir
    write_json(path, {"base": base, "runs": runs})
    return len(runs)


def _by_seed(cases: list[Case], setting: Setting) -> Iterator[tuple[int, Case]]:
    for seed in setting.runs_seeds:
        for case in cases:
            yield seed, case


def _line(case: Case, setting: Setting, seed: int) -> dict[str, object]:
    """Return a run as it stands in a sweep's file."""
    dataset = setting.dataset(case.dataset)
    line: dict[str, object] = {"dataset": dataset, "method": case.method, "seed": seed}
    line |= {"protocol": case.protocol, "limit": setting.total(dataset)}
    line |= {"weights": setting.weights_of(dataset), "reset_every": case.reset_every}
    if case.protocol == "recurring":
        line["rounds"] = setting.repeats
    if case.memory is not None:
        line["memory"] = {"name": case.memory, "options": dict(case.memory_options)}
    if case.options:
        line["set"] = dict(case.options)
    return {key: value for key, value in line.items() if value is not None}
