"""Tables of a sweep's folder: one line a run, means over seeds, differences between memories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from multipool.bench.report.summary import NO_MEMORY, Row, Section, paired, sections
from multipool.bench.run import result as results
from multipool.bench.run.certificate import pack, portable
from multipool.bench.run.result import Result
from multipool.bench.sweep.planned import RUNS, label_of
from multipool.core import write_csv

RESULTS, SUMMARY, DIFFERENCES = "results.csv", "summary.csv", "differences.csv"
# Settings that have a column of their own whether they vary or not.
_FIRST = ("method", "memory", "dataset", "protocol", "seed", "source")
_MEMORY = ("memory", "memory_options", "seed")
_COUNTS = ("updates", "skipped", "restored")
_TIMES = ("load", "stream", "predict", "memory", "adapt")

Line = dict[str, Any]


def collect_tables(out: str | Path) -> Path:
    """Write ``results.csv``, ``summary.csv`` and ``differences.csv`` into ``out``.

    They are made from every complete run in ``out/runs``, whichever sweep did it. Returns the path
    of ``results.csv``.
    """
    out = Path(out)
    found = complete(out)
    if not found:
        raise FileNotFoundError(f"no run under {out / RUNS} is complete, so there is no table yet")
    labels = {json.dumps(run.settings): label_of(folder) for folder, run in found}
    grouped = sections([run for _, run in found])
    _write(out / RESULTS, run_lines(found))
    _write(out / SUMMARY, [line for part in grouped for line in summary_lines(part, labels)])
    _write(out / DIFFERENCES, [line for part in grouped for line in difference_lines(part, labels)])
    return out / RESULTS


def complete(out: Path) -> list[tuple[Path, Result]]:
    """Return every complete run of a sweep's folder with its own folder."""
    found = results.read_each(sorted((out / RUNS).glob(f"*/{results.FILE}")))
    return [(p.parent, run) for p, run in found if run.complete and run.error is not None]


def run_lines(found: Sequence[tuple[Path, Result]]) -> list[Line]:
    """Return one line a run; settings that are the same in all runs are left out."""
    flat = [_flat(run.settings) for _, run in found]
    chosen = [*_FIRST, *(name for name in _varying(flat) if name not in _FIRST)]
    domains = list(dict.fromkeys(domain for _, run in found for domain in run.errors))
    lines = []
    for (folder, run), settings in zip(found, flat, strict=True):
        line: Line = {"run": folder.name, "label": label_of(folder)}
        line |= {name: _cell(settings.get(name)) for name in chosen}
        line |= {"error": run.error, "samples": run.samples}
        line |= {f"error {domain}": run.errors.get(domain) for domain in domains}
        line |= {f"seconds {part}": run.timing.get(part) for part in _TIMES}
        line |= {"samples a second": run.samples_per_second}
        line |= {name: run.counts.get(name) for name in _COUNTS}
        line |= {"memory samples": (run.memory or {}).get("size")}
        line |= {key: run.host.get(key) for key in ("peak_memory_mib", "gpu_peak_memory_mib")}
        line |= {"certificate": pack([run.certificate])}
        lines.append(line)
    return lines


def summary_lines(section: Section, labels: dict[str, str]) -> Iterator[Line]:
    """Yield mean and standard deviation over seeds, a line for every row of a section."""
    for row in section.rows:
        line = {**_heading(section), **_names(row, labels)}
        line |= {"seeds": len(row.runs), "error": round(row.mean, 4)}
        line |= {"std": _rounded(row.std), "samples a second": _rounded(row.speed, 1)}
        line |= {"memory us a sample": _rounded(row.memory_cost, 2)}
        line |= {f"error {name}": _rounded(row.domain_error(name)) for name in section.domains}
        line |= {"certificate": pack(run.certificate for run in row.runs)}
        yield line


def difference_lines(section: Section, labels: dict[str, str]) -> Iterator[Line]:
    """Yield the paired differences of every two memories under the same method.

    ``difference`` is the second's error subtracted from the first's, seed by seed, in points: below
    0 the first makes fewer errors. ``standard error`` is that of the mean over seeds.
    """
    groups: dict[str, list[Row]] = {}
    for row in section.rows:
        if row.memory != NO_MEMORY:
            rest = {k: v for k, v in row.runs[0].settings.items() if k not in _MEMORY}
            groups.setdefault(json.dumps(rest, sort_keys=True), []).append(row)
    for rows in groups.values():
        for second, first in combinations(rows, 2):
            gain = paired(first, second)
            if gain is None:
                continue
            names, others = _names(first, labels), _names(second, labels)
            yield {
                **_heading(section),
                "method": names["method"],
                "memory": names["name"],
                "against": others["name"],
                "seeds": gain.pairs,
                "difference": round(gain.difference, 4),
                "standard error": _rounded(gain.error),
            }


def _heading(section: Section) -> Line:
    return {key: section.context[key] for key in ("dataset", "protocol")}


def _names(row: Row, labels: dict[str, str]) -> Line:
    label = labels.get(json.dumps(row.runs[0].settings), "")
    name = label or (f"{row.memory} ({row.variant})" if row.variant else row.memory)
    return {"method": row.method, "memory": row.memory, "variant": row.variant, "name": name}


def _flat(settings: Any) -> Line:  # noqa: ANN401
    # Tables are handed around: they name files, not the folders of a machine.
    left_out = ("options", "memory_options", "data_dir")
    flat = {k: v for k, v in settings.items() if k not in left_out}
    flat |= {k: portable(flat[k]) for k in ("weights", "model", "classes") if flat.get(k)}
    flat |= {f"set.{k}": v for k, v in settings.get("options", {}).items()}
    return flat | {f"set.memory.{k}": v for k, v in settings.get("memory_options", {}).items()}


def _varying(flat: Sequence[Line]) -> list[str]:
    """Return the settings in which runs differ; that methods have other options does not count."""
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    seen: dict[str, dict[str, set[str]]] = {name: {} for name in names}
    for settings in flat:
        for name in names:
            own = name.startswith("set.") and not name.startswith("set.memory.")
            owner = str(settings["method"]) if own else ""
            seen[name].setdefault(owner, set()).add(json.dumps(settings.get(name)))
    return [name for name in names if any(len(values) > 1 for values in seen[name].values())]


def _cell(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def _write(path: Path, lines: Sequence[Line]) -> None:
    """Write lines as CSV in one step; what a line does not have is an empty cell."""
    columns = list(dict.fromkeys(name for line in lines for name in line))
    write_csv(path, [columns, *([line.get(name) for name in columns] for line in lines)])
