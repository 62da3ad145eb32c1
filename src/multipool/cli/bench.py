"""``multipool bench``: how fast methods, memories, corruptions and the service are."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from multipool.bench.speed.corruptions import measure_corruptions, overall
from multipool.bench.speed.guard import GuardCost, measure_guard
from multipool.bench.speed.images import model_and_grain, shapes_model
from multipool.bench.speed.machine import Witness, turn
from multipool.bench.speed.memory import MemoryRow, measure_memory
from multipool.bench.speed.methods import Speed, every_pair, measure_methods
from multipool.cli import options as o
from multipool.cli.bench_serve import serve
from multipool.cli.console import print_json, say, table
from multipool.core import lookup
from multipool.core.files import write_json
from multipool.data import COMMON, EXTRA
from multipool.methods import METHODS
from multipool.ops.device import resolve

app = typer.Typer(add_completion=False, epilog="Example: multipool bench methods --batches 10")
app.command(epilog="Example: multipool bench serve --streams 64 --seconds 60")(serve)

_EXAMPLE = "Example: multipool bench methods --methods rotta,petta --batch-size 64"
_NAMES = Annotated[
    str | None, typer.Option(metavar="A,B,...", help=f"Of: {', '.join(METHODS)}. Left out: all.")
]
_CORRUPTIONS = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Which ones. Left out: the 15.")
]
_SIDES = Annotated[str, typer.Option(metavar="PX,...", help="Sides of the images.")]
_REPEATS = Annotated[int, typer.Option(metavar="N", help="Batches a median is taken over.")]
_BATCHES = Annotated[int, typer.Option(metavar="N", help="Batches measured, after a warm-up.")]


@app.callback()
def _root() -> None:
    """Measure the speed of methods, memories, corruptions and the service."""


@app.command(epilog=_EXAMPLE)
def methods(
    methods: _NAMES = None,
    batch_size: o.BatchSize = 64,
    batches: _BATCHES = 20,
    warm_up: Annotated[
        int, typer.Option(metavar="N", help="Batches before; a GPU gets to know batch sizes.")
    ] = 5,
    look: Annotated[
        int,
        typer.Option(metavar="N", help="Batches in one light before the next. 0: all as they are."),
    ] = 0,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Another model than the embedded one: file or name."),
    ] = None,
    pixels: Annotated[
        int, typer.Option(metavar="PX", help="Side of the images, with --weights.")
    ] = 32,
    device: o.Device = "auto",
    precision: o.Precision = "auto",
    compile: o.Compile = False,  # noqa: A002
    guard: Annotated[
        bool, typer.Option("--guard", help="Measure what the guard costs, in float32.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write speeds and machine as JSON, too.")
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure every method and memory, against the least it has to compute.

    "samples/s" is of the median batch, "mean/s" of all; they differ where some batches teach more.
    "% of source" is the throughput beside plain inference, measured in the same turns; "cold" the
    samples a second of the first 40 batches, "start" the seconds from ``adapt`` to the tenth.
    "x forward" is the time of a batch over one plain forward pass of the model; "x necessary" over
    the bare forward and backward passes that the method cannot do without; "x own pool" over the
    same method with its own pool. All of a method's steps and those passes take turns. With
    --precision auto some methods compute in float16, plain inference in float32.
    """
    wanted = o.split_names(methods) or tuple(METHODS)
    for name in wanted:
        lookup(METHODS, name, "method")
    place = resolve(device)
    model, images = (
        model_and_grain(weights, pixels, place, colours=16 if look else 156)
        if weights
        else shapes_model(place)
    )
    pairs = [(method, memory) for method, memory in every_pair() if method in wanted]
    how: dict[str, Any] = {
        "batch_size": batch_size,
        "batches": batches,
        "warm_up": warm_up,
        "progress": lambda name: say(f"measuring {name}", quiet or json),
    }
    with turn(how["progress"]):
        if guard:
            _show_guard(measure_guard(model, images, pairs, **how), str(place), json)
            return
        witness = Witness(place)
        found = measure_methods(
            model, images, pairs, precision=precision, compile=compile, look=look, **how
        )
        machine = witness.facts()
    _show_speeds(
        found, {**machine, "batch_size": batch_size, "warm_up": warm_up, "look": look}, write, json
    )


@app.command(epilog="Example: multipool bench memory --sides 32 --repeats 10")
def memory(
    sides: _SIDES = "32,224",
    repeats: _REPEATS = 30,
    growth: Annotated[bool, typer.Option(help="Also how the cost grows.")] = True,
    device: o.Device = "auto",
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure the memory alone, beside its naive definition and a pool as published."""
    pixels = tuple(_whole(word, "--sides") for word in o.split_names(sides) or ())
    say("measuring", quiet or json)
    found = measure_memory(str(resolve(device)), pixels, repeats, growth)
    if json:
        print_json([{**dataclasses.asdict(r), "total_ms": r.total_ms} for r in found])
        return
    columns = ["study", "bank", "decisions", "px", "batch", "K", "N", "seen"]
    columns += ["add ms", "retrieve ms", "CPU ms", "KiB"]
    table(f"memory on {resolve(device)}", columns, [_memory_row(r) for r in found], left=3)


@app.command(epilog="Example: multipool bench corruptions --names fog,frost --pixels 32")
def corruptions(
    names: _CORRUPTIONS = None,
    pixels: Annotated[int, typer.Option(metavar="PX", help="32, 64 or 224.")] = 32,
    images: Annotated[int, typer.Option(metavar="N", help="Images in a batch.")] = 512,
    severity: o.Severity = 5,
    device: o.Device = "auto",
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure every corruption, beside the package imagecorruptions where it is installed."""
    chosen = o.split_names(names) or tuple(COMMON)
    for name in chosen:
        lookup(dict.fromkeys(COMMON + EXTRA), name, "corruption")
    found = measure_corruptions(
        chosen,
        pixels,
        images,
        severity=severity,
        device=str(resolve(device)),
        progress=lambda name: say(f"measuring {name}", quiet or json),
    )
    if json:
        print_json([{**dataclasses.asdict(s), "ratio": s.ratio} for s in found])
        return
    rows = [
        [s.name, f"{s.ours:,.0f}", _or_dash(s.reference, ",.0f"), _or_dash(s.ratio, ".1f")]
        for s in found
    ]
    rows.append(["all", f"{overall([s.ours for s in found]):,.0f}", "", ""])
    columns = ["corruption", "images/s", "imagecorruptions", "ratio"]
    table(f"corruptions at {pixels} px on {resolve(device)}", columns, rows)


def _show_speeds(
    found: list[Speed], machine: dict[str, object], write: Path | None, json: bool
) -> None:
    whole = {"machine": machine, "speeds": [dataclasses.asdict(speed) for speed in found]}
    if write is not None:
        write_json(write, whole)
    if json:
        print_json(whole)
        return
    columns = [
        "method",
        "memory",
        "samples/s",
        "mean/s",
        "% of source",
        "cold/s",
        "start s",
        "ms/batch",
    ]
    columns += ["x forward", "x necessary", "x own pool", "memory %"]
    table(f"speed on {machine['device']}", columns, [_row(speed) for speed in found], left=2)
    said = dict.fromkeys(f"{s.method} in {s.precision}" for s in found if s.precision != "float32")
    if said:
        say(f"{', '.join(said)}; plain forward passes in float32", False)
    others = machine.get("cores_busy_with_others", "an unknown number of")
    say(f"others kept {others} of {machine['cores']} cores busy meanwhile", False)


def _show_guard(costs: list[GuardCost], place: str, json: bool) -> None:
    if json:
        print_json(
            [
                {**dataclasses.asdict(cost), "percent": cost.percent, "most": cost.most}
                for cost in costs
            ]
        )
        return
    rows = [
        [
            cost.method,
            cost.memory or "–",
            f"{cost.milliseconds:.2f}",
            f"{cost.guarded:.2f}",
            f"{cost.look:.2f}",
            f"{cost.percent:.1f}",
            f"{cost.most:.1f}",
        ]
        for cost in costs
    ]
    columns = ["method", "memory", "ms/batch", "guarded", "looks", "guard %", "at most %"]
    table(f"cost of the guard on {place}", columns, rows, left=2)


def _memory_row(row: MemoryRow) -> list[str]:
    numbers = [row.pixels, row.batch, row.clusters, row.capacity, row.seen]
    size = (row.image_bytes + row.other_bytes) / 1024
    times = [f"{ms:.3f}" for ms in (row.add_ms, row.retrieve_ms, row.cpu_ms)]
    times.append(f"{size:,.0f}" if size else "–")
    return [row.study, row.bank, row.decisions or "–", *(str(n) for n in numbers), *times]


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _whole(word: str, option: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise ValueError(f"{option} takes whole numbers with commas between, got '{word}'")
    return int(word)


def _row(speed: Speed) -> list[str]:
    return [
        speed.method,
        speed.memory or "–",
        f"{speed.samples_per_second:,.0f}",
        f"{speed.mean_per_second:,.0f}",
        f"{100 * speed.source_share:.0f}",
        f"{speed.cold_per_second:,.0f}",
        f"{speed.start_seconds:.2f}",
        f"{speed.milliseconds:.2f}",
        f"{speed.forward_ratio:.2f}",
        _or_dash(speed.necessary_ratio, ".2f"),
        _or_dash(speed.pool_ratio, ".3f"),
        f"{100 * speed.memory_share:.1f}",
    ]
