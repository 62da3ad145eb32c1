"""``multipool statistics``: source statistics once, for a model and a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.sources import FROM_STATISTICS, make_statistics
from multipool.cli import options as o
from multipool.cli.console import print_json, say
from multipool.engine import statistics
from multipool.ops.device import resolve

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool statistics --dataset shapes-c --out source.safetensors"
_OFFERED = ("dataset", "model", "weights", "data_dir", "source", "device")
_OUT = Annotated[Path, typer.Option(metavar="FILE", help="File to write.")]


@app.command(epilog=EXAMPLE)
@o.experiment(_OFFERED, method=FROM_STATISTICS[0])
def main(
    experiment: Experiment,
    out: _OUT = Path("source.safetensors"),
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Make source statistics once: class-wise mean and variance of a model's features.

    Python takes the file as multipool.adapt(..., method="petta", source=FILE). The command run
    makes and keeps its own.
    """
    loader = Loader()
    loaded = loader.both(experiment, resolve(experiment.device))
    images = loaded.dataset.source(experiment.source_split())
    found = make_statistics(loaded.model, images, loaded.num_classes)
    statistics.write(out, found)
    few = int((found.counts < 2).sum())
    if json:
        print_json({"file": str(out), "images": int(found.counts.sum()), "small_classes": few})
        return
    say(f"{int(found.counts.sum())} images of {loaded.num_classes} classes", quiet)
    if few:
        say(f"note: {few} classes got fewer than 2 images and take the overall statistics", quiet)
    say(f"note: {images.note}", quiet)
    print(out)
