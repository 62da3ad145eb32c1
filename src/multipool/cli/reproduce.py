"""``multipool reproduce``: a table or figure of the paper by its id, ours beside the paper's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.paper import (
    ALL,
    TARGETS,
    Made,
    Reproduction,
    Setting,
    assign_weights,
    cases_of,
    chosen,
    datasets_of,
    export,
    missing_runs,
    obstacles,
    reproduce,
    title,
)
from multipool.bench.recheck import Places
from multipool.bench.sweep import Options, Plan, make_plan
from multipool.bench.sweep.local import default_workers
from multipool.cli import options as o
from multipool.cli.check import check_rows
from multipool.cli.console import print_json, say, table
from multipool.cli.sweep import Threads, Workers, watching

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool reproduce table2 --scale small --out paper"
_IDS = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Of --list; 'all' is every one.", show_default=False),
]
_LIST = Annotated[bool, typer.Option("--list", help="Print the ids and what they are.")]
_SCALE = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="full: the paper's streams; subset: 1,000 images of each domain; small: a few images "
        "of shapes-c, in minutes, without data.",
    ),
]
_WEIGHTS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[DATASET=]FILE",
        help="The source model of a dataset; repeatable.",
        show_default=False,
    ),
]
_SEEDS = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Seeds of every row; left out: 0,1,2 (small: 0,1)."),
]
_LIMIT = Annotated[
    int | None,
    typer.Option(metavar="N", help="Images of each domain; left out: what --scale says."),
]
_ROUNDS = Annotated[
    int | None,
    typer.Option(metavar="R", help="Rounds of recurring streams; left out: 20 (small: 2)."),
]
_METHODS = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Only the rows of these methods.")
]
_OUT = Annotated[Path, typer.Option(metavar="DIR", help="Folder of runs, tables and figures.")]
_PLAN = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json", help="Only write the runs as a file for a sweep, here or elsewhere."
    ),
]
_COLLECT = Annotated[
    bool, typer.Option("--collect", help="Run nothing; show what is in --out already.")
]

_CHECK = Annotated[
    Path | None,
    typer.Option(
        "--check",
        metavar="FILE",
        help="Run the rows of a result.json or a CSV table again; say whether they agree.",
    ),
]
_ROW = Annotated[int | None, typer.Option(metavar="N", help="With --check: this row, from 1 on.")]
_MODEL = Annotated[
    str | None,
    typer.Option(metavar="FILE.py:NAME", help="With --check: the model of one's own, if it was."),
]
_CLASSES = Annotated[
    str | None, typer.Option(metavar="FILE", help="With --check: the list of classes, if any.")
]


@app.command(epilog=EXAMPLE)
def main(
    ids: _IDS = None,
    list_ids: _LIST = False,
    scale: _SCALE = "full",
    data_dir: o.DataDir = None,
    weights: _WEIGHTS = None,
    seeds: _SEEDS = None,
    limit: _LIMIT = None,
    rounds: _ROUNDS = None,
    methods: _METHODS = None,
    device: o.Device = "auto",
    precision: o.NamedPrecision = "float32",
    workers: Workers = None,
    threads: Threads = None,
    out: _OUT = Path("multipool-paper"),
    plan: _PLAN = None,
    collect: _COLLECT = False,
    check: _CHECK = None,
    row: _ROW = None,
    model: _MODEL = None,
    classes: _CLASSES = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Make tables and figures of the paper again, and set them beside the paper's numbers.

    Runs lie in DIR/runs and are made once, whichever id asks for them; a folder made elsewhere is
    recognised. With --check, run rows that are there again. Exits with 1 if a run failed or a
    row does not agree.
    """
    if list_ids:
        _show_ids(json)
        return
    if check is not None:
        files = [w if Path(w).exists() else w.rpartition("=")[2] for w in weights or []]
        check_rows(check, row, Places(files, data_dir, model, classes, device), json, quiet)
        return
    if row is not None or model is not None or classes is not None:
        raise ValueError("--row, --model and --classes are for --check FILE, which is not there")
    if not ids:
        raise ValueError(
            f"reproduce needs an id, got none; choose of: {', '.join([*TARGETS, ALL])}"
        )
    names = chosen(ids)
    plain = Setting(
        scale=scale,
        seeds=o.split_seeds(seeds),
        limit=limit,
        rounds=rounds,
        device=device,
        precision=precision,
        data_dir=data_dir,
        methods=o.split_names(methods) or (),
    )
    given = assign_weights(weights or [], datasets_of(names, plain) or ["cifar100-c"])
    setting = replace(plain, weights=given)
    if plan is not None:
        _write_plan(plan, names, setting, json)
        return
    options = Options(workers=workers, threads=threads)
    silent = quiet or json
    todo = _todo(names, setting, out, collect)
    with watching(todo, workers or default_workers(list(todo.todo)), silent) as tell:
        made = reproduce(
            names,
            setting,
            out,
            options=options,
            collect=collect,
            tell=tell,
            say=lambda text: say(text, silent),
        )
    _show(made, out, json, quiet)
    if made.failed:
        raise typer.Exit(1)


def _todo(names: list[str], setting: Setting, out: Path, collect: bool) -> Plan:
    """Return what is left to run, for the progress bar."""
    if collect:
        return make_plan([], out)
    return make_plan(missing_runs(names, setting, out, obstacles(names, setting, out)), out)


def _show_ids(json: bool) -> None:
    if json:
        print_json([{"id": name, "title": title(name)} for name in TARGETS])
        return
    rows = [[name, title(name)] for name in TARGETS]
    table("tables and figures of the paper", ["id", "what"], rows, left=2)


def _write_plan(path: Path, names: list[str], setting: Setting, json: bool) -> None:
    count = export(path, cases_of(names, setting), setting)
    if json:
        print_json({"plan": str(path), "runs": count})
        return
    print(path)
    say(f"{count} runs; multipool sweep {path} --out DIR")


def _show(made: Made, out: Path, json: bool, quiet: bool) -> None:
    if json:
        print_json(
            {"tables": [_content(r, out) for r in made.reports], "failed": dict(made.failed)}
        )
        return
    for report in made.reports:
        if quiet:
            print(out / f"{report.name}.csv")
            continue
        _show_report(report, out)
    for name, sentence in made.failed.items():
        say(f"failed: {name}: {sentence}")


def _show_report(report: Reproduction, out: Path) -> None:
    print(f"{report.name}: {report.title}\n{report.face}")
    for block in report.blocks:
        rows = [list(row) for row in block.rows]
        table(block.title, block.columns, rows, left=block.left)
    for line in (report.legend, *(f"- {note}" for note in report.notes)):
        if line:
            print(line)
    pictures = f", {report.pictures[0]}" if report.pictures else ""
    say(f"written to {out / report.name}.csv and .md{pictures}\n")


def _content(report: Reproduction, out: Path) -> dict[str, object]:
    cells = [
        {"part": c.part, "row": c.row, "column": c.column, "ours": c.ours, "paper": c.paper}
        for c in report.cells
        if c.ours is not None
    ]
    return {
        "id": report.name,
        "scale": report.face,
        "csv": str(out / f"{report.name}.csv"),
        "cells": cells,
    }
