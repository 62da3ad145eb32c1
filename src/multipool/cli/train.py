"""``multipool train``: train a source model and write it to one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import TextColumn, TimeRemainingColumn

from multipool.bench.train.optimizers import OPTIMIZERS
from multipool.bench.train.recipe import SOURCES, Recipe, make_source
from multipool.bench.train.train import TrainConfig, TrainProgress
from multipool.cli import options as o
from multipool.cli.console import print_json, progress_bar
from multipool.models import MODELS

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool train --dataset shapes --model wrn10-1 --epochs 3 --out m.safetensors"
_LOOK_EVERY = 10  # steps between two readings of the loss; each waits for the device
_Dataset = Annotated[str, typer.Option(metavar="NAME", help=f"One of: {', '.join(SOURCES)}.")]
_Model = Annotated[str, typer.Option(metavar="NAME", help=f"One of: {', '.join(MODELS)}.")]
_Crop = Annotated[
    int | None,
    typer.Option(metavar="PX", help="Largest shift; left out: 2 for shapes, 4 for others."),
]
_Init = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Weights to start from, file or name; for other classes the last layer is new.",
    ),
]


@app.command(epilog=EXAMPLE)
def main(
    dataset: _Dataset = "shapes",
    model: _Model = "wrn10-1",
    epochs: Annotated[int, typer.Option(metavar="N", help="Passes over the images.")] = 30,
    batch_size: Annotated[int, typer.Option(metavar="N", help="Images in a step.")] = 128,
    lr: Annotated[float, typer.Option(metavar="X", help="Learning rate at the start.")] = 0.1,
    weight_decay: Annotated[float, typer.Option(metavar="X", help="L2 pull to zero.")] = 5e-4,
    crop: _Crop = None,
    augmix: Annotated[bool, typer.Option(help="Augment with AugMix.")] = False,
    jitter: Annotated[
        bool, typer.Option(help="Vary contrast, brightness and grain of each image.")
    ] = False,
    randaugment: Annotated[
        bool, typer.Option("--randaugment", help="Augment with RandAugment.")
    ] = False,
    mix: Annotated[
        float, typer.Option(metavar="X", help="Share of batches for mixup or CutMix.")
    ] = 0.0,
    precision: Annotated[
        str,
        typer.Option(metavar="NAME", help="auto, float32 or bf16; auto: bf16 on a GPU."),
    ] = "auto",
    optimizer: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of: {', '.join(OPTIMIZERS)}.")
    ] = "sgd",
    warmup: Annotated[
        float, typer.Option(metavar="X", help="Share of the training in which the rate rises.")
    ] = 0.0,
    smoothing: Annotated[float, typer.Option(metavar="X", help="Label smoothing, 0 to 1.")] = 0.0,
    init: _Init = None,
    images: Annotated[int, typer.Option(metavar="N", help="Images to draw, for shapes.")] = 20000,
    size: Annotated[
        int | None, typer.Option(metavar="PX", help="Side of a folder's pictures.")
    ] = None,
    data_dir: o.DataDir = None,
    seed: o.Seed = 0,
    device: o.Device = "auto",
    half: Annotated[bool, typer.Option(help="Store half precision.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path(
        "model.safetensors"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Go on after the last epoch.")] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Train a source model: a cosine schedule, crop and flip, and more where it is asked for."""
    if crop is None:
        crop = 2 if dataset == "shapes" else 4
    config = TrainConfig(
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        weight_decay=weight_decay,
        crop=crop,
        augmix=augmix,
        jitter=jitter,
        seed=seed,
        optimizer=optimizer,
        warmup=warmup,
        smoothing=smoothing,
        randaugment=randaugment,
        mix=mix,
        precision=precision,
    )
    recipe = Recipe(dataset, model, config, images, data_dir, size, half, init)
    with _bar(epochs, hidden=quiet or json) as report:
        said = make_source(recipe, out, device=device, resume=resume, report=report)
    if json:
        print_json({"file": str(out), **said})
    elif quiet:
        print(said["clean_error_percent"])
    else:
        print(f"{out}: {said['architecture']}, clean error {said['clean_error_percent']} %")


@contextmanager
def _bar(epochs: int, hidden: bool) -> Iterator[Callable[[TrainProgress], None]]:
    """Give a function that moves a progress bar on the error stream."""
    title, loss = TextColumn("epoch {task.fields[epoch]}"), TextColumn("loss {task.fields[loss]}")
    with progress_bar(title, loss, TimeRemainingColumn(), hidden=hidden) as bar:
        task = bar.add_task("train", total=None, epoch="-", loss="-")

        def report(now: TrainProgress) -> None:
            if now.step % _LOOK_EVERY == 0 or now.step == now.steps:
                bar.update(
                    task,
                    total=epochs * now.steps,
                    completed=(now.epoch - 1) * now.steps + now.step,
                    epoch=f"{now.epoch}/{epochs}",
                    loss=f"{float(now.loss):.3f}",
                )

        yield report
