"""Carry a sweep out: hand its runs to a backend, and write the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from multipool.bench.sweep.collect import collect_tables
from multipool.bench.sweep.ledger import SweepLedger, Tell
from multipool.bench.sweep.local import run_local
from multipool.bench.sweep.planned import Planned
from multipool.bench.sweep.ray_backend import run_ray
from multipool.bench.sweep.work import DONE, Options
from multipool.core import lookup

Backend = Callable[[SweepLedger, list[Planned], Options], None]
BACKENDS: Mapping[str, Backend] = {"local": run_local, "ray": run_ray}


@dataclass(frozen=True)
class Ended:
    """How a sweep ended."""

    done: tuple[str, ...]  # names of runs with a result, whoever made it
    found: tuple[str, ...]  # those of them that this sweep did not make
    failed: Mapping[str, str]  # name -> what went wrong
    results: Path | None  # the table, if there is one


def sweep(
    runs: Sequence[Planned],
    out: str | Path,
    *,
    backend: str | Backend = "local",
    options: Options = Options(),
    tell: Tell | None = None,
) -> Ended:
    """Do every run that is not done in ``out``, and write the tables of all that are.

    A failed run does not stop the others. ``tell`` hears what happens; Ctrl-C leaves checkpoints
    from which the next sweep on the folder goes on.
    """
    chosen = lookup(BACKENDS, backend, "backend") if isinstance(backend, str) else backend
    out = Path(out)
    try:
        with SweepLedger(runs, out, tell, options.retries) as ledger:
            chosen(ledger, list(runs), options)
    finally:
        table = None
        with suppress(FileNotFoundError):
            table = collect_tables(out)
    ended = ledger.outcomes
    return Ended(
        done=tuple(name for name, outcome in ended.items() if outcome.state == DONE),
        found=tuple(sorted(ledger.found)),
        failed={n: outcome.sentence for n, outcome in ended.items() if outcome.state != DONE},
        results=table,
    )
