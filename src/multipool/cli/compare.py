"""``multipool compare``: which method for which kind of stream."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.compare import (
    DECODE,
    SCALES,
    Comparison,
    Judgement,
    Setting,
    cases,
    compare,
    read_rows,
    speeds,
    write_tables,
)
from multipool.bench.sweep import BACKENDS, Options, make_plan
from multipool.bench.sweep.local import default_workers
from multipool.cli import options as o
from multipool.cli.console import print_json, say, table
from multipool.cli.sweep import Address, BackendName, Threads, Workers, plan_sentence, watching
from multipool.core import lookup

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool compare --scale small --out comparison"
_OUT = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the runs, table and page.")]
_SCALE = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"One of: {', '.join(SCALES)}. small: embedded data, two minutes; subset: short "
        "streams of CIFAR; full: all kinds of stream, models and methods, three seeds; distinct: "
        "the same, but no image comes twice.",
    ),
]
_METHODS = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="METHOD, METHOD+MEMORY, METHOD:OPTION=VALUE; left out: what --scale says.",
    ),
]
_KINDS = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Kinds of stream by name, or patterns of DATASET/MODEL/NAME; left out: all.",
    ),
]
_SEEDS = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Seeds; left out: 0 (full: 0,1,2).")
]
_WEIGHTS_DIR = Annotated[
    str | None, typer.Option(metavar="DIR", help="Where the files of weights lie; else here.")
]
_DECODE = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"Tables with the sequence decoder, without it, or both. One of: {', '.join(DECODE)}.",
    ),
]
_FROM = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Run nothing; make table and page of these compare.csv files; repeatable.",
        show_default=False,
    ),
]


@app.command(epilog=EXAMPLE)
def main(
    scale: _SCALE = Setting.scale,
    out: _OUT = Path("multipool-compare"),
    methods: _METHODS = None,
    kinds: _KINDS = None,
    seeds: _SEEDS = None,
    decode: _DECODE = Setting.decode,
    data_dir: o.DataDir = None,
    weights_dir: _WEIGHTS_DIR = None,
    device: o.Device = "auto",
    backend: BackendName = "local",
    workers: Workers = None,
    threads: Threads = None,
    ray_address: Address = Options.ray_address,
    from_: _FROM = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run methods on many kinds of stream, and say which one to use.

    Prints each method's regret, the error minus that of the best method on the same stream, and
    writes DIR/compare.csv and DIR/compare.html. Stopped, the same command goes on from where it
    was. Exits with 1 if a run failed.
    """
    setting = Setting(
        scale=scale,
        methods=o.split_names(methods),
        kinds=o.split_names(kinds),
        seeds=o.split_seeds(seeds),
        data_dir=data_dir,
        weights_dir=weights_dir,
        device=device,
        decode=decode,
    )
    lookup(BACKENDS, backend, "backend")
    if from_:
        rows = [row for path in from_ for row in read_rows(path)]
        _show(write_tables(rows, out, setting), json, quiet)
        return
    made = _compare(
        setting, out, backend, Options(workers, threads, ray_address=ray_address), json or quiet
    )
    _show(made, json, quiet)
    if made.failed:
        raise typer.Exit(1)


def _compare(
    setting: Setting, out: Path, backend: str, options: Options, silent: bool
) -> Comparison:
    planned = make_plan([case.planned for case in cases(setting)], out)
    count = options.workers or (default_workers(list(planned.todo)) if backend == "local" else 1)
    say(plan_sentence(planned, count), silent)
    with watching(planned, count, silent) as tell:
        return compare(out, setting, backend=backend, options=options, tell=tell)


def _show(made: Comparison, json: bool, quiet: bool) -> None:
    if json:
        print_json(
            {
                "tables": [_content(judgement) for judgement in made.judgements],
                "failed": dict(made.failed),
                "csv": str(made.table),
                "page": str(made.page),
            }
        )
        return
    for name, sentence in made.failed.items():
        say(f"failed: {name}: {sentence}")
    speed = speeds(made.rows)
    for judgement in made.judgements:
        if not quiet:
            _print(judgement, speed)
        print(f"{judgement.title}: {judgement.conclusion}")
    say(f"page: {made.page}", quiet)


def _content(judgement: Judgement) -> dict[str, object]:
    return {
        "decoded": judgement.decoded,
        "conclusion": judgement.conclusion,
        "standings": [dataclasses.asdict(standing) for standing in judgement.standings],
    }


def _print(judgement: Judgement, speed: dict[str, float]) -> None:
    titles = ["method", "worst on", "mean regret", "worst regret", "worse than source", "speed"]
    rows = []
    for standing in judgement.standings:
        worse = "–"
        if standing.worse is not None:
            worse = f"{standing.worse} of {standing.columns}"
        beside = f"{speed[standing.row]:.2f}" if standing.row in speed else "–"
        rows.append(
            [
                standing.row,
                judgement.names[standing.worst_column],
                f"{standing.mean:.2f}",
                f"{standing.worst:.2f}",
                worse,
                beside,
            ]
        )
    table(judgement.title, titles, rows, left=2)
