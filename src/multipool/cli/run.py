"""``multipool run``: one method, one memory, one dataset, one protocol, one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.rerun import command
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
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the answer to every image there, as CSV."),
    ] = None,
    out: o.Out = None,
    checkpoint_every: _EVERY = CHECKPOINT_EVERY,
    baseline: Annotated[
        bool,
        typer.Option("--baseline", help="Run the source model too and show its errors beside."),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run one method on one stream and write what it got right."""
    unwritten = None
    beside = None
    if baseline:
        beside = _baseline(experiment, out, checkpoint_every, resume, quiet or json)
    try:
        with progress(title(experiment), quiet or json) as show:
            result = run(
                experiment,
                out,
                show,
                checkpoint_every=checkpoint_every,
                resume=resume,
                diagnose=diagnose,
                predictions=predictions,
            )
    except NotWrittenError as error:
        result, unwritten = error.result, error
    except Interrupted as stopped:
        say(_how_to_go_on(stopped.result, out, diagnose))
        raise
    if json:
        kept = {} if beside is None else {"baseline": beside.as_dict()}
        print_json({**result.as_dict(), **kept})
    elif quiet:
        print(" ".join(f"{_known(r.error):.2f}" for r in (result, beside) if r is not None))
    else:
        _show(experiment, result, beside)
        if predictions is not None:
            say(f"answers written to {predictions}")
        if out is not None and unwritten is None:
            say(f"written to {out / FILE}")
    if unwritten is not None:
        raise unwritten


def _baseline(
    experiment: Experiment, out: Path | None, every: int, resume: bool, quiet: bool
) -> Result:
    """Run the source model on the same stream; its result lies in ``out/baseline``."""
    if experiment.method == "source":
        raise ValueError(
            "--baseline sets the source model beside a method, got --method source; leave one out"
        )
    frozen = replace(
        experiment,
        method="source",
        memory=None,
        guard=False,
        fallback="snapshot",
        source=None,
        reset_every=None,
        decode="none",
        options={},
        memory_options={},
    )
    folder = None if out is None else out / "baseline"
    with progress(title(frozen), quiet) as show:
        return run(frozen, folder, show, checkpoint_every=every, resume=resume)


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


def _show(experiment: Experiment, result: Result, beside: Result | None) -> None:
    if result.samples and result.error is None:
        say(f"{title(experiment)}: the images have no labels, so there is no error")
    else:
        _show_errors(experiment, result, beside)
    counts = ", ".join(f"{value} {name}" for name, value in result.counts.items())
    say(f"{result.samples} samples, {result.samples_per_second:g} a second; {counts}")
    if result.estimate is not None:
        say(f"estimated error at the end, without labels: {100 - result.estimate:.2f} %")
    if result.pools is not None:
        say(_pools(result.pools))
    for note in result.notes:
        say(f"note: {note}")


def _show_errors(experiment: Experiment, result: Result, beside: Result | None) -> None:
    errors = {**result.errors, "mean": _known(result.error)}
    if result.undecoded_error is not None:
        errors["mean, undecoded"] = result.undecoded_error
    columns = ["domain", "error %"]
    rows = [[name, f"{error:.2f}"] for name, error in errors.items()]
    if beside is not None:
        mean = _known(beside.error)
        frozen = {**beside.errors, "mean": mean, "mean, undecoded": mean}
        columns += ["source %", "difference"]
        for row, (name, error) in zip(rows, errors.items(), strict=True):
            row += [f"{frozen[name]:.2f}", f"{error - frozen[name]:+.2f}"]
    table(f"{title(experiment)}, {experiment.protocol}", columns, rows)
    if beside is not None:
        say(_sentence(errors["mean"], frozen["mean"]))


def _known(error: float | None) -> float:
    return float("nan") if error is None else error  # of a run without a single sample


def _sentence(error: float, frozen: float) -> str:
    """Return what adapting was worth.

    >>> _sentence(30.0, 40.0)
    'adapting took 10.0 points of error away: 30.0 % against 40.0 % of the source model'
    """
    gap = frozen - error
    told = "took {:.1f} points of error away" if gap >= 0 else "cost {:.1f} points"
    shown = f"{error:.1f} % against {frozen:.1f} % of the source model"
    return f"adapting {told.format(abs(gap))}: {shown}"


def _pools(pools: Mapping[str, Any]) -> str:
    """Return what became of the pools.

    >>> _pools({"pools": 2, "pool": 1, "created": 3, "merged": 1, "trace": []})
    '2 pools at the end; 3 created, 1 merged'
    """
    events = {k: v for k, v in pools.items() if k not in ("pools", "pool", "trace")}
    told = ", ".join(f"{count} {kind}" for kind, count in events.items())
    return f"{pools['pools']} pools at the end; {told}"
