"""``multipool bench``: how fast the methods are."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from multipool.bench.environment import resolve
from multipool.bench.methods_speed import Speed, every_pair, measure_methods, shapes_model
from multipool.cli import options as o
from multipool.cli.console import print_json, say, table
from multipool.core import lookup
from multipool.methods import METHODS

app = typer.Typer(add_completion=False, epilog="Example: multipool bench methods --batches 10")

_EXAMPLE = "Example: multipool bench methods --methods rotta,petta --batch-size 64"
_NAMES = Annotated[
    str | None, typer.Option(metavar="A,B,...", help=f"Of: {', '.join(METHODS)}. Left out: all.")
]
_BATCHES = Annotated[int, typer.Option(metavar="N", help="Batches measured, after a warm-up.")]


@app.callback()
def _root() -> None:
    """Measure the speed of methods, memories and corruptions."""


@app.command(epilog=_EXAMPLE)
def methods(
    methods: _NAMES = None,
    batch_size: o.BatchSize = 64,
    batches: _BATCHES = 20,
    device: o.Device = "auto",
    precision: o.Precision = "float32",
    compile: Annotated[bool, typer.Option("--compile", help="Use torch.compile.")] = False,  # noqa: A002
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure every method and memory on shapes-c, against the least it has to compute.

    "x forward" is the time of a batch over one plain forward pass of the model; "x necessary" over
    the bare forward and backward passes that the method cannot do without.
    """
    wanted = o.names(methods) or tuple(METHODS)
    for name in wanted:
        lookup(METHODS, name, "method")
    model, images = shapes_model(resolve(device))
    found = measure_methods(
        model,
        images,
        [(method, memory) for method, memory in every_pair() if method in wanted],
        batch_size=batch_size,
        batches=batches,
        precision=precision,
        compile=compile,
        progress=lambda name: say(f"measuring {name}", quiet or json),
    )
    if json:
        print_json([dataclasses.asdict(speed) for speed in found])
        return
    columns = ["method", "memory", "samples/s", "ms/batch", "x forward", "x necessary", "memory %"]
    table(f"speed on {resolve(device)}", columns, [_row(speed) for speed in found], left=2)


def _row(speed: Speed) -> list[str]:
    least = "–" if speed.necessary_ratio is None else f"{speed.necessary_ratio:.2f}"
    return [
        speed.method,
        speed.memory or "–",
        f"{speed.samples_per_second:,.0f}",
        f"{speed.milliseconds:.2f}",
        f"{speed.forward_ratio:.2f}",
        least,
        f"{100 * speed.memory_share:.1f}",
    ]
