"""``multipool data``: what datasets there are, whether they are here, and how to get them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import DownloadColumn, TextColumn, TransferSpeedColumn

from multipool.cli import options as o
from multipool.cli.console import print_json, progress_bar, say, table
from multipool.data import DATASETS
from multipool.data.catalog import CATALOG
from multipool.data.check import Report, present
from multipool.data.check import check as look
from multipool.data.fetch import FetchError, Tell, manual_steps
from multipool.data.fetch import fetch as bring
from multipool.data.places import cache_folder

app = typer.Typer(add_completion=False, no_args_is_help=True, epilog="Example: multipool data list")

_Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help=f"Of: {', '.join(CATALOG)}.")
]
_Dir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="MULTIPOOL_DATA",
        help="Where datasets lie.",
    ),
]


@app.callback()
def _group() -> None:
    """List, check and fetch datasets."""


@app.command("list", epilog="Example: multipool data list --data-dir data")
def list_(data_dir: _Dir = None, json: o.Json = False) -> None:
    """Show which datasets exist, their size and licence, and where each would be."""
    rows = []
    for name, entry in CATALOG.items():
        goal, here = _home(name, data_dir)
        rows.append(
            {
                "name": name,
                "about": entry.about,
                "bytes": entry.size,
                "licence": entry.licence,
                "where": goal,
                "here": here,
            }
        )
    for name in (name for name in DATASETS if name not in CATALOG):
        about = f"added by package {DATASETS.origin(name)}"
        added = {"name": name, "about": about, "bytes": 0, "licence": "-", "where": "-"}
        rows.append({**added, "here": False})
    if json:
        print_json({"datasets": rows, "cache": str(cache_folder())})
        return
    cells = [
        (
            str(row["name"]),
            str(row["about"]),
            f"{int(str(row['bytes'])) / 1e9:.1f} GB" if row["bytes"] else "-",
            str(row["licence"]),
            f"{row['where']}{' (here)' if row['here'] else ''}",
        )
        for row in rows
    ]
    table(
        "datasets", ("name", "what it is", "to fetch", "licence", "where"), cells, left=5, whole=1
    )
    say(f"Corrupted copies made from clean sets are kept in {cache_folder()}.")


@app.command("check", epilog="Example: multipool data check cifar10-c --data-dir data")
def check(
    names: _Names = None,
    data_dir: _Dir = None,
    decode: Annotated[bool, typer.Option("--decode", help="Read every single image.")] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Say whether datasets are present, complete and unchanged.

    Exit code 1 if a named dataset is not complete, or, without names, if any is damaged or a part.
    """
    hush = quiet or json
    reports = [
        look(name, data_dir, decode=decode, tell=lambda text: say(text, hush))
        for name in names or [name for name in CATALOG if name != "folder"]
    ]
    if json:
        print_json({"datasets": [asdict(report) for report in reports]})
    else:
        _show(reports)
    right = {"complete"} if names else {"complete", "absent"}
    if any(report.state not in right for report in reports):
        raise typer.Exit(1)


@app.command("fetch", epilog="Example: multipool data fetch cifar10-c --data-dir data")
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="What to fetch.")],
    data_dir: _Dir = None,
    quiet: o.Quiet = False,
) -> None:
    """Download official files, resuming where a download stopped, check and unpack them.

    Without a network it says so, prints the manual steps, and ends with exit code 1.
    """
    if data_dir is None:
        raise ValueError("fetch needs a folder: pass --data-dir or set MULTIPOOL_DATA")
    for name in names:
        try:
            with _bar(quiet) as tell:
                places = bring(name, Path(data_dir), tell)
        except FetchError as error:
            say(f"error: {error}; do it by hand:")
            for number, step in enumerate(error.steps, start=1):
                say(f"  {number}. {step}")
            raise typer.Exit(1) from None
        say(f"{name} is in {', '.join(map(str, places))}", quiet)
        if CATALOG[name].manual:
            say(f"still to do: {manual_steps(name, Path(data_dir))[-2]}", quiet)


def _home(name: str, data_dir: str | None) -> tuple[str, bool]:
    """Return where a dataset is, or would be, and whether it is there."""
    if name == "shapes-c":
        return "in the package", True
    base = Path(data_dir) if data_dir else Path("DATA_DIR")
    downloads = CATALOG[name].downloads
    found = present(name, base) if downloads else None
    if found is not None:
        return str(found), True
    return str(base / downloads[0].goal.split("/")[0]) if downloads else str(base), False


def _show(reports: list[Report]) -> None:
    rows = [(report.name, report.state, report.where, report.found) for report in reports]
    table("datasets", ("name", "state", "where", "found"), rows, left=4)
    for report in reports:
        for fault in report.faults:
            say(f"{report.name}: {fault}")


@contextmanager
def _bar(quiet: bool) -> Iterator[Tell]:
    """Yield a function that shows how much of a file has come."""
    title, counts = TextColumn("{task.description}"), (DownloadColumn(), TransferSpeedColumn())
    with progress_bar(title, *counts, hidden=quiet) as bar:
        tasks = {}

        def tell(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total or None)
            bar.update(tasks[file], completed=done)

        yield tell
