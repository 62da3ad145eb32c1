"""``multipool demo``: the whole system on the embedded dataset, in two minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.report import demo as work
from multipool.bench.report.verdict import verdict
from multipool.bench.run.runner import Progress
from multipool.cli import options as o
from multipool.cli.console import print_json, progress, say, table

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool demo --out my-demo"
_OUT = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the runs and the page.")]
_IMAGES = Annotated[int, typer.Option(metavar="N", help="Images of each of the 6 corruptions.")]


@app.command(epilog=EXAMPLE)
def main(
    out: _OUT = Path("multipool-demo"),
    images: _IMAGES = work.PER_DOMAIN,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare source, bn, tent, tribe, the paper's hosts with two memories, and multipool.

    A sentence at the end says which to use; the page is written to the folder --out.
    """
    started = time.perf_counter()
    with progress("demo", quiet or json) as show:

        def tell(name: str, index: int, count: int, step: Progress) -> None:
            if show is None or (index > 0 and step.total == 0):
                return
            done, total = index * step.total + step.done, count * step.total
            show(Progress(done, total, step.error, step.stage), name)

        section, path = work.demo(out, seed, images, tell)
    concluded = verdict(section.rows)
    if json:
        rows = [
            {"method": row.method, "memory": row.memory, **row.runs[0].as_dict()}
            for row in section.rows
        ]
        print_json({"report": str(path), "conclusion": concluded, "runs": rows})
        return
    columns, rows_of_text = work.demo_table(section)
    title = f"shapes-c, {len(section.domains)} corruptions of {images} images, seed {seed}"
    table(title, columns, rows_of_text, left=2)
    if not quiet:
        for remark in work.remarks(section):
            print(remark)
        print("One seed and a short stream: differences of less than about a point may be chance.")
        print(concluded)
        say(f"{time.perf_counter() - started:.0f} seconds in all")
    print(f"report: {path}")
