"""``multipool run``: one method, one memory, one dataset, one protocol, one seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from multipool.bench.report.rerun import command
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.result import FILE, Result
from multipool.bench.run.runner import CHECKPOINT_EVERY, Interrupted, NotWrittenError, run
from multipool.cli import options as o
from multipool.cli.console import print_json, progress, say, table

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool run --dataset shapes-c --method rotta --memory mcm --limit 3000"
_EVERY = Annotated[
    int, typer.Option(metavar="N", help="Batches between checkpoints in --out; 0: none.")
]


@app.command(epilog=EXAMPLE)
@o.experiment()
def main(
    experiment: Experiment,
    diagnose: Annotated[
        bool, typer.Option("--diagnose", help="Record losses and the memory's quality over time.")
    ] = False,
    out: o.Out = None,
    checkpoint_every: _EVERY = CHECKPOINT_EVERY,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run one method on one stream and write what it got right."""
    unwritten = None
    try:
        with progress(title(experiment), quiet or json) as show:
            result = run(
                experiment,
                out,
                show,
                checkpoint_every=checkpoint_every,
                resume=resume,
                diagnose=diagnose,
            )
    except NotWrittenError as error:
        result, unwritten = error.result, error
    except Interrupted as stopped:
        say(_how_to_go_on(stopped.result, out, diagnose))
        raise
    if json:
        print_json(result.as_dict())
    elif quiet:
        print(f"{result.error:.2f}")
    else:
        _show(experiment, result)
        if out is not None and unwritten is None:
            say(f"written to {out / FILE}")
    if unwritten is not None:
        raise unwritten


def title(experiment: Experiment) -> str:
    """Return a run's short name.

    >>> title(Experiment(method="source"))
    'source on shapes-c'
    """
    memory = "" if experiment.memory is None else f" + {experiment.memory}"
    return f"{experiment.method}{memory} on {experiment.dataset}"


def _how_to_go_on(result: Result, out: Path | None, diagnose: bool) -> str:
    seen = f"interrupted after {result.samples:,} of {result.total:,} samples"
    if out is None:
        return f"{seen}; nothing was kept, which --out DIR would have done"
    words = " --diagnose" if diagnose else ""
    return f"{seen}; go on with: {command(result.settings, str(out))}{words} --resume"


def _show(experiment: Experiment, result: Result) -> None:
    rows = [[name, f"{error:.2f}"] for name, error in result.errors.items()]
    rows.append(["mean", f"{result.error:.2f}"])
    if result.undecoded_error is not None:
        rows.append(["mean, undecoded", f"{result.undecoded_error:.2f}"])
    table(f"{title(experiment)}, {experiment.protocol}", ["domain", "error %"], rows)
    counts = ", ".join(f"{value} {name}" for name, value in result.counts.items())
    say(f"{result.samples} samples, {result.samples_per_second:g} a second; {counts}")
    if result.estimate is not None:
        say(f"estimated error at the end, without labels: {100 - result.estimate:.2f} %")
    if result.pools is not None:
        say(_pools(result.pools))
    for note in result.notes:
        say(f"note: {note}")


def _pools(pools: Mapping[str, Any]) -> str:
    """Return what became of the pools.

    >>> _pools({"pools": 2, "pool": 1, "created": 3, "merged": 1, "trace": []})
    '2 pools at the end; 3 created, 1 merged'
    """
    events = {k: v for k, v in pools.items() if k not in ("pools", "pool", "trace")}
    told = ", ".join(f"{count} {kind}" for kind, count in events.items())
    return f"{pools['pools']} pools at the end; {told}"
