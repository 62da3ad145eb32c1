"""``multipool bench serve``: the service under load, beside the plain model's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import torch
import typer

from multipool.bench.speed.machine import Witness, turn
from multipool.bench.speed.serve import Load, ServeSpeed, measure_serve
from multipool.cli import options as o
from multipool.cli.console import print_json, say, table
from multipool.core import lookup
from multipool.core.files import write_json
from multipool.methods import METHODS

_METHODS = "Beside source, the plain model, which is always there."
_SEEN = "Images that each stream has been shown before."


def serve(
    methods: Annotated[str, typer.Option(metavar="A,B,...", help=_METHODS)] = "multipool",
    streams: Annotated[int, typer.Option(metavar="N", help="Streams at once.")] = Load.streams,
    images: Annotated[int, typer.Option(metavar="N", help="Images a request.")] = Load.images,
    period: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds between two requests of a stream.")
    ] = Load.period,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds of load, for each method.")
    ] = Load.seconds,
    seen: Annotated[int, typer.Option(metavar="N", help=_SEEN)] = Load.seen,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Another model than the embedded one, for 32 px."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write figures and machine as JSON, too.")
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure how long ``multipool serve`` takes to answer many streams at once.

    A service with each method and one with the plain model, on this machine, take turns under the
    same load; needs what ``multipool serve`` needs.
    """
    wanted = o.split_names(methods) or ()
    for name in wanted:
        lookup(METHODS, name, "method")
    load = Load(streams, images, period, seconds, seen=seen, weights=weights)

    def progress(text: str) -> None:
        say(text, quiet or json)

    with turn(progress):
        witness = Witness(torch.device("cpu"))
        found = measure_serve(wanted, load, progress)
        machine = witness.facts()
    whole = {
        "machine": machine,
        "load": dataclasses.asdict(load),
        "services": [dataclasses.asdict(speed) for speed in found],
    }
    if write is not None:
        write_json(write, whole)
    if json:
        print_json(whole)
        return
    columns = ["method", "answers", "p50 ms", "p99 ms", "x plain", "CPU ms", "MiB"]
    table(f"{streams} streams on {machine['device']}", columns, [_row(s) for s in found], left=1)


def _row(speed: ServeSpeed) -> list[str]:
    rest = [None if v is None else f"{v:.1f}" for v in (speed.cpu, speed.memory)]
    times = [f"{speed.p50:.1f}", f"{speed.p99:.1f}", f"{speed.times_plain:.2f}"]
    return [speed.method, str(speed.answers), *times, *(value or "–" for value in rest)]
