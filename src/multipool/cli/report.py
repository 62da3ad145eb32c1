"""``multipool report``: one page of all the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.report.report import report
from multipool.cli import options as o
from multipool.cli.console import print_json

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool report results"
_FOLDER = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with result.json files.")]
_TITLE = Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the page.")]


@app.command(epilog=EXAMPLE)
def main(
    folder: _FOLDER, title: _TITLE = None, json: o.Json = False, quiet: o.Quiet = False
) -> None:
    """Write DIR/report.html from every result.json under DIR; figures go to DIR/figures."""
    path = report(folder, title)
    if json:
        figures = sorted(str(p) for p in (folder / "figures").iterdir())
        print_json({"report": str(path), "figures": figures})
    else:
        print(path if quiet else f"report: {path}")
