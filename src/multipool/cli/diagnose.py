"""``multipool diagnose``: is a stream multi-modal, and does a memory cover it."""

from __future__ import annotations

from typing import Annotated

import typer

from multipool.bench.report.diagnose_figures import NUMBERS, draw_memory, draw_stream
from multipool.bench.report.figures import Picture
from multipool.bench.run.diagnose import (
    IMAGE_DESCRIPTORS,
    SNAPSHOTS,
    Watched,
    diagnose_memory,
    diagnose_stream,
)
from multipool.bench.run.experiment import Experiment, memories
from multipool.cli import options as o
from multipool.cli.console import print_json, progress, say, table
from multipool.core import lookup
from multipool.data import DATASETS, Stream
from multipool.diagnostics import COMPONENTS, COVARIANCES, Clusterability
from multipool.models import SHIPPED

app = typer.Typer(add_completion=False, epilog="Example: multipool diagnose stream --limit 3000")

_STREAM = "Example: multipool diagnose stream --dataset shapes-c --limit 3000 --out diagnosis"
_MEMORY = "Example: multipool diagnose memory --method petta --limit 3000 --out diagnosis"
_OF_STREAM = (
    *("dataset", "protocol", "data_dir", "domains", "severity"),
    *("batch_size", "gamma", "rounds", "shown", "seed", "limit", "distinct"),
)
_DESCRIPTORS = Annotated[
    str, typer.Option(metavar="A,B,...", help=f"Of: {', '.join(IMAGE_DESCRIPTORS)}.")
]
_COVARIANCE = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"{' or '.join(COVARIANCES)}. Full ones do not count a correlation as modes.",
    ),
]
_WINDOWS = Annotated[int, typer.Option(metavar="N", help="At most so many windows, spread evenly.")]
_MEMORIES = Annotated[str, typer.Option(metavar="A,B,...", help=f"Of: {', '.join(memories())}.")]
_INTERVAL = Annotated[
    int | None,
    typer.Option(metavar="N", help="Samples between measurements; left out: 640 or less."),
]
_AT = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Shares of the stream to picture; left out: Fig. S2's."),
]
_SAME = Annotated[
    bool,
    typer.Option("--same-capacity", help="Also the method's own pool, as large as mcm."),
]


@app.callback()
def _root() -> None:
    """Look at a stream, or at memories while a method runs on it."""


@app.command(epilog=_STREAM)
@o.experiment(_OF_STREAM, method="source", weights=next(iter(SHIPPED)))  # no model is needed
def stream(
    experiment: Experiment,
    descriptors: _DESCRIPTORS = ",".join(IMAGE_DESCRIPTORS),
    window: Annotated[int, typer.Option(metavar="N", help="Samples of a window.")] = 256,
    max_components: Annotated[int, typer.Option(metavar="K", help="Most modes tried.")] = 15,
    max_windows: _WINDOWS = 40,
    covariance: _COVARIANCE = "diag",
    out: o.Out = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Count the modes of a stream, window by window: Gaussian mixtures, chosen by BIC.

    K* near 1 means that one pool will do; the paper finds 5.9 to 9.7 on CIFAR-100-C.
    """
    o.make_folder(out)
    wanted = o.split_names(descriptors) or IMAGE_DESCRIPTORS
    for name in wanted:
        lookup(dict.fromkeys(IMAGE_DESCRIPTORS), name, "descriptor")
    found = diagnose_stream(
        Stream(DATASETS[experiment.dataset](experiment.data()), experiment.stream()),
        wanted,
        lambda name: say(f"counting modes by {name}", quiet or json),
        window=window,
        max_components=max_components,
        max_windows=max_windows,
        covariance=covariance,
        seed=experiment.seed,
    )
    drawn = [] if out is None else [draw_stream(found, out)]
    if json:
        print_json({"stream": [_modes(one) for one in found], "files": _files(drawn)})
        return
    rows = [_mode_row(one) for one in found]
    title = f"modes of {experiment.dataset}, {experiment.protocol}"
    table(title, ["descriptor", *_MODE_COLUMNS], rows)
    _tell_files(drawn, quiet)


@app.command(epilog=_MEMORY)
@o.experiment(without=("memory", "guard", "fallback"), method="petta")
def memory(
    experiment: Experiment,
    memories: _MEMORIES = "single,mcm,mcm+",
    interval: _INTERVAL = None,
    components: Annotated[
        int, typer.Option(metavar="K", help="Gaussians in the reference mixture.")
    ] = COMPONENTS,
    at: _AT = None,
    same_capacity: _SAME = False,
    out: o.Out = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run a method with several memories, and measure how well each covers the stream so far."""
    o.make_folder(out)
    subject = f"{experiment.method} on {experiment.dataset}"
    with progress(subject, quiet or json) as show:
        watched = diagnose_memory(
            experiment,
            o.split_names(memories) or (),
            interval=interval,
            components=components,
            snapshots=_shares(at),
            same_capacity=same_capacity,
            progress=show,
        )
    drawn = [] if out is None else draw_memory(watched, out)
    if json:
        print_json({"memory": [_numbers(one) for one in watched], "files": _files(drawn)})
        return
    columns = ["memory", "error %", "holds", *(f"{n}, {w}" for n in NUMBERS for w in _WHEN)]
    table(f"memory quality of {subject}", columns, [_row(one) for one in watched])
    _tell_files(drawn, quiet)


_WHEN = ("mean", "end")
_MODE_COLUMNS = ("covariance", "windows", "of", "mean K*", "std", "least", "most")


def _modes(one: Clusterability) -> dict[str, object]:
    return {
        "descriptor": one.descriptor,
        "covariance": one.covariance,
        "window": one.window,
        "starts": list(one.starts),
        "best": list(one.best),
        "mean": one.mean,
        "std": one.std,
    }


def _mode_row(one: Clusterability) -> list[str]:
    numbers = [f"{one.mean:.2f}", f"{one.std:.2f}", str(min(one.best)), str(max(one.best))]
    return [one.descriptor, one.covariance, str(len(one.best)), str(one.window), *numbers]


def _numbers(one: Watched) -> dict[str, object]:
    return {
        "memory": one.name,
        "error": one.error,
        "capacity": one.capacity,
        "mean": {number: one.mean(number) for number in NUMBERS},
        "end": {number: one.last(number) for number in NUMBERS},
        "trace": [point.as_dict() for point in one.trace],
    }


def _row(one: Watched) -> list[str]:
    told = [f"{value:.2f}" for n in NUMBERS for value in (one.mean(n), one.last(n))]
    return [one.name, f"{one.error:.2f}", str(one.capacity), *told]


def _shares(text: str | None) -> tuple[float, ...]:
    if text is None:
        return SNAPSHOTS
    try:
        return tuple(float(word) for word in o.split_names(text) or ())
    except ValueError:
        raise ValueError(f"--at takes shares of the stream like 0.5,1, got '{text}'") from None


def _files(drawn: list[Picture]) -> list[str]:
    return [str(path) for picture in drawn for path in picture.files]


def _tell_files(drawn: list[Picture], quiet: bool) -> None:
    for picture in drawn:
        stem = picture.files[0].with_suffix("")
        say(f"{picture.title}: {stem} as .png, .svg and .csv", quiet)
