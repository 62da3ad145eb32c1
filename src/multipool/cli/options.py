"""Options that commands share; a setting of an experiment is described there and nowhere else."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from multipool.bench.run.experiment import Experiment
from multipool.engine.setup import PRECISIONS

_SETTINGS = {f.name: f for f in dataclasses.fields(Experiment) if "help" in f.metadata}
_KINDS = typing.get_type_hints(Experiment) | {"domains": str | None}


def setting(name: str) -> Any:  # noqa: ANN401
    """Return the option for a field of :class:`Experiment`."""
    about = _SETTINGS[name].metadata
    flag = ["--compile"] if name == "compile" else []  # there is nothing to switch off
    return typer.Option(*flag, metavar=about["metavar"] or None, help=about["help"])


DataDir = Annotated[str | None, setting("data_dir")]
Severity = Annotated[int, setting("severity")]
BatchSize = Annotated[int, setting("batch_size")]
Seed = Annotated[int, setting("seed")]
Device = Annotated[str, setting("device")]
# What is compared is computed in a precision with a name; who measures or serves may choose.
NamedPrecision = Annotated[str, setting("precision")]
Precision = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"One of: {', '.join(PRECISIONS)}. Of the passes; auto: the faster one that is safe.",
    ),
]
Compile = Annotated[bool, setting("compile")]
_Set = Annotated[
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


def experiment(
    only: Sequence[str] | None = None, *, without: Sequence[str] = (), **instead: object
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of an experiment, and hand it the experiment that they make.

    ``only`` names the settings that are offered; left out, they are all (but those ``without``)
    and ``--set``. ``instead`` are other values: defaults of what is offered, and what the rest is.
    """
    names = [name for name in only or _SETTINGS if name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**given: Any) -> None:  # noqa: ANN401
            values = {name: given.pop(name) for name in names}
            if "domains" in values:
                values["domains"] = split_names(values["domains"])
            if only is None:
                values["options"], values["memory_options"] = split_settings(given.pop("set_"))
            command(Experiment(**{**instead, **values}), **given)

        options = [
            _option(
                name,
                Annotated[_KINDS[name], setting(name)],
                instead.get(name, _SETTINGS[name].default),
            )
            for name in names
        ]
        options += [_option("set_", _Set, None)] if only is None else []
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        everything = [*options, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
        called.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in everything}
        return called

    return decorate


def _option(name: str, kind: object, default: object) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=kind)


def make_folder(out: Path | None) -> None:
    """Make the folder of ``--out``: that it cannot be is said before the work, not after it."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)


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


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a list with commas; None stays None.

    >>> split_names("fog, snow")
    ('fog', 'snow')
    """
    return None if text is None else tuple(part.strip() for part in text.split(","))


def split_seeds(text: str | None) -> tuple[int, ...] | None:
    """Return the seeds in a list with commas; None stays None.

    >>> split_seeds("0, 2")
    (0, 2)
    """
    try:
        return None if text is None else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--seeds takes whole numbers like 0,1,2, got '{text}'") from None
