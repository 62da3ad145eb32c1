"""``multipool reproduce --check FILE``: rows run again, and whether they agree."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import typer

from multipool.bench.recheck import Again, Places, Verdict, read_file, recheck
from multipool.cli.console import print_json, progress, say
from multipool.core import printable


def check_rows(path: Path, row: int | None, places: Places, json: bool, quiet: bool) -> None:
    """Print a verdict for every row of ``path``, or for one; exit with 1 if one disagrees."""
    rows = read_file(path, row)
    again, found = Again(places), []
    for number, recorded in enumerate(rows, 1):
        with progress(f"row {number} of {len(rows)}", quiet or json) as show:
            verdict = recheck(recorded, again, show)
        found.append(verdict)
        if not json:
            print(printable(verdict.sentence))
    checked = [verdict for verdict in found if not verdict.why_not]
    agreed = sum(verdict.agrees for verdict in checked)
    if json:
        print_json({"rows": [_content(verdict) for verdict in found]})
    elif len(found) > 1:
        say(
            f"{agreed} of {len(checked)} rows agree; {len(found) - len(checked)} not checked", quiet
        )
    if agreed < len(checked):
        raise typer.Exit(1)


def _content(verdict: Verdict) -> dict[str, object]:
    agrees = None if verdict.why_not else verdict.agrees
    return {**dataclasses.asdict(verdict), "agrees": agrees, "sentence": verdict.sentence}
