"""Options that several commands share; every choice is read from the table that serves it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.run.experiment import SPLITS, memories
from multipool.data import DATASETS, PROTOCOLS
from multipool.engine.setup import PRECISIONS
from multipool.methods import METHODS
from multipool.models import HUBS, MODELS, SHIPPED


def _one_of(names: object) -> str:
    return "One of: " + ", ".join(str(name) for name in names) + "."  # type: ignore[attr-defined]


DatasetName = Annotated[str, typer.Option("--dataset", metavar="NAME", help=_one_of(DATASETS))]
MethodName = Annotated[str, typer.Option("--method", metavar="NAME", help=_one_of(METHODS))]
MemoryName = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="NAME",
        help=_one_of(memories()) + " Left out: the method's own pool, which is 'single'.",
    ),
]
ProtocolName = Annotated[str, typer.Option("--protocol", metavar="NAME", help=_one_of(PROTOCOLS))]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help=f"Architecture, where the weights do not name it. {_one_of(MODELS)} "
        f"Or with its weights: {', '.join(f'{hub}:NAME' for hub in HUBS)}.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help=f"A .safetensors or .pt file, or a shipped name: {', '.join(SHIPPED)}.",
    ),
]
DataDir = Annotated[
    str | None, typer.Option(metavar="DIR", help="Where datasets lie; else MULTIPOOL_DATA.")
]
Domains = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Domains in stream order; left out: the paper's."),
]
Severity = Annotated[int, typer.Option(metavar="1-5", help="Severity of the corruptions.")]
BatchSize = Annotated[int, typer.Option(metavar="N", help="Images in a batch.")]
Gamma = Annotated[
    float, typer.Option(metavar="G", help="Dirichlet concentration; smaller: more correlated.")
]
Rounds = Annotated[int, typer.Option(metavar="R", help="Repetitions of a recurring stream.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of everything random.")]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="auto, cpu, cuda or cuda:N; auto: a GPU if there is.")
]
Limit = Annotated[
    int | None,
    typer.Option(metavar="N", help="At most N images in all, the same ones in every domain."),
]
SourceSplit = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="SPLIT",
        help=f"Clean images for source statistics: {' or '.join(SPLITS)}. Left out: what the "
        "public code takes (petta, mecta: test, of which the stream shows corrupted copies).",
    ),
]
Precision = Annotated[
    str, typer.Option(metavar="NAME", help=_one_of(PRECISIONS) + " Of the method's passes.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A hyperparameter of the method, or memory.KEY=VALUE of the memory; repeatable.",
    ),
]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the result.")]
Json = Annotated[bool, typer.Option("--json", help="Print machine-readable output.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but the result.")]


def split_settings(given: list[str] | None) -> tuple[dict[str, object], dict[str, object]]:
    """Return the method's and the memory's options from ``KEY=VALUE`` words.

    >>> split_settings(["lr=1e-4", "loss=ce", "memory.fill=true"])
    ({'lr': 0.0001, 'loss': 'ce'}, {'fill': True})
    """
    method: dict[str, object] = {}
    memory: dict[str, object] = {}
    for word in given or []:
        key, sign, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not sign or not key:
            raise ValueError(f"--set takes KEY=VALUE, got '{word}'")
        owner, dot, name = key.partition(".")
        if dot and owner != "memory":
            raise ValueError(f"--set takes KEY=VALUE or memory.KEY=VALUE, got '{word}'")
        (memory if dot else method)[name if dot else key] = plain(value.strip())
    return method, memory


def plain(text: str) -> object:
    """Return the number, truth value or nothing that ``text`` spells, else the text.

    >>> plain("3"), plain("0.5"), plain("yes"), plain("true"), plain("none")
    (3, 0.5, 'yes', True, None)
    """
    words: dict[str, object] = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def names(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a list with commas; None stays None.

    >>> names("fog, snow")
    ('fog', 'snow')
    """
    return None if text is None else tuple(part.strip() for part in text.split(","))
