"""The rows of a file: what they claim, and the certificates of the runs behind them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from multipool.bench.run import result as results
from multipool.bench.run.certificate import Certificate, check_certificate, unpack
from multipool.bench.run.rerun import command
from multipool.core import brief

Line = Mapping[str, str]
_ERROR = "error "
_OLD = "has no certificate: it was written before rows had them, and cannot be checked"
_UNSTEADY = "has no error to check: it is a time, or follows from other rows"
# What of a paper's table the same run gives again; times are not, and some numbers follow from
# others.
_STEADY = ("error", "average", "round")


@dataclass(frozen=True)
class Recorded:
    """A row: ``numbers`` by the name of their measure, each the mean over ``certificates``.

    ``why_not`` says why there is nothing to check, where that is so.
    """

    where: str
    numbers: Mapping[str, float]
    certificates: tuple[Certificate, ...]
    why_not: str = ""


def read_file(path: str | Path, row: int | None = None) -> list[Recorded]:
    """Return the rows of a ``result.json`` or a CSV file; ``row`` counts from 1, None is all.

    Raise ``ValueError`` if there is nothing in the file that could be checked.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file of results at {path}")
    if path.suffix.lower() == ".csv":
        found = _table(path)
        if row is not None and not 1 <= row <= len(found):
            raise ValueError(f"row must be 1 to {len(found)} of {path}, got {row}")
        found = found if row is None else [found[row - 1]]
    elif row not in (None, 1):
        raise ValueError(f"{path} is one run, not a table; leave --row out, got {row}")
    else:
        found = [_run(path)]
    if all(one.why_not for one in found):
        raise ValueError(f"{found[0].where} {found[0].why_not}")
    return found


def _run(path: Path) -> Recorded:
    made = results.read(path)
    if not made.complete:
        return Recorded(str(path), {}, (), "is a run that did not come to its end")
    if not made.certificate:
        again = command(made.settings)
        return Recorded(str(path), {}, (), f"{_OLD}; its settings say: {again}")
    numbers = {"error": made.error, "undecoded_error": made.undecoded_error}
    numbers |= {f"error in {domain}": error for domain, error in made.errors.items()}
    known = {name: value for name, value in numbers.items() if value is not None}
    return _recorded(str(path), known, [made.certificate])


def _table(path: Path) -> list[Recorded]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            names = list(reader.fieldnames or [])
            lines = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not readable as CSV: {brief(error)}") from None
    read = next((make for needed, make in _READERS if needed <= set(names)), None)
    if read is None or not lines:
        raise ValueError(
            f"{path} is no table of multipool sweep, compare or reproduce, or it has no rows"
        )
    return [_line(line, f"row {place}", read) for place, line in enumerate(lines, 1)]


def _line(line: Line, where: str, read: Callable[[Line], dict[str, str]]) -> Recorded:
    try:
        certificates = unpack(line.get("certificate") or "")
        numbers = {name: float(text) for name, text in read(line).items() if text}
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} is damaged: {brief(error)}") from None
    if not certificates:
        return Recorded(where, {}, (), _OLD if numbers else _UNSTEADY)
    if "seed" in line and line["seed"] != str(certificates[0].get("seed")):
        raise ValueError(
            f"{where} contradicts itself: it says seed {brief(line['seed'])}, its certificate "
            f"{certificates[0].get('seed')}"
        )
    return _recorded(where, numbers, certificates)


def _recorded(where: str, numbers: dict[str, float], found: list[Certificate]) -> Recorded:
    for certificate in found:
        try:
            check_certificate(certificate)
        except ValueError as error:
            raise ValueError(f"{where} cannot be checked: {error}") from None
    return Recorded(where, numbers, tuple(found), "" if numbers else _UNSTEADY)


def _of_paper(line: Line) -> dict[str, str]:
    kind = line["measure"].partition(" ")[0]
    return {line["measure"]: line["ours"]} if kind in _STEADY else {}


def _of_compare(line: Line) -> dict[str, str]:
    """Return the error of the run; without a decoder it stands under ``undecoded_error``."""
    if not line["error"]:
        return {"error": line["undecoded_error"]}
    return {"error": line["error"], "undecoded_error": line["undecoded_error"]}


def _of_sweep(line: Line) -> dict[str, str]:
    domains = {f"error in {name.removeprefix(_ERROR)}": name for name in line if name[:6] == _ERROR}
    return {measure: line[name] for measure, name in {"error": "error", **domains}.items()}


# Columns by which a table is known -> how its numbers are read. Old ones have no certificate.
_READERS: tuple[tuple[set[str], Callable[[Line], dict[str, str]]], ...] = (
    ({"ours", "by seed", "measure"}, _of_paper),
    ({"ours", "by seed"}, lambda line: {"error": line["ours"]}),
    ({"kind", "error", "undecoded_error"}, _of_compare),
    ({"method", "dataset", "error"}, _of_sweep),
)
