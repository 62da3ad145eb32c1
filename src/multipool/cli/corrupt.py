"""``multipool corrupt``: a corrupted copy of a clean set, in the official layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.run.runner import Progress
from multipool.cli import options as o
from multipool.cli.console import print_json, progress, say
from multipool.data import COMMON, EXTRA
from multipool.data.write import ARRAYS, SIZES, copy_dataset, copy_folder

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool corrupt --dataset shapes-c --names fog,frost --out shapes-copy"
_Dataset = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Its clean test images. One of: {', '.join(ARRAYS)}."),
]
_Images = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Or your own pictures, in class folders.")
]
_Size = Annotated[
    int, typer.Option(metavar="PX", help=f"Side for --images: {', '.join(map(str, SIZES))}.")
]
_Names = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help=f"Of: {', '.join(COMMON + EXTRA)}. Left out: the 15."),
]
_Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the copy.")]


@app.command(epilog=EXAMPLE)
def main(
    dataset: _Dataset = None,
    images: _Images = None,
    size: _Size = 224,
    names: _Names = None,
    data_dir: o.DataDir = None,
    seed: o.Seed = 0,
    out: _Out = Path("corrupted"),
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Write a corrupted copy of a clean set, all severities, in the official layout.

    A dataset becomes one .npy file a corruption, as CIFAR-C; pictures in class folders become
    corruption/severity/class/picture.JPEG, as ImageNet-C. A second call goes on where the first
    one stopped.
    """
    if (dataset is None) == (images is None):
        raise ValueError("pass either --dataset or --images")
    chosen = o.split_names(names) or tuple(COMMON)
    with progress("corrupting", quiet or json) as show:

        def tell(name: str, done: int, total: int) -> None:
            if show is not None:
                show(Progress(done, total, None), name)

        if dataset is not None:
            copy_dataset(dataset, out, chosen, data_dir, seed, tell)
        elif images is not None:
            copy_folder(images, out, chosen, size, seed=seed, progress=tell)
    if json:
        print_json({"folder": str(out), "corruptions": list(chosen)})
    else:
        say(f"{len(chosen)} corruptions, seed {seed}", quiet)
        print(out)
