"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import typer

from multipool.cli.main import COMMANDS


def page() -> str:
    """Return the page of all commands."""
    parts = [
        "# Command line",
        "",
        "Made from the commands themselves. Every one has `--help` with an example; most have "
        "`--json` for machines and `--quiet` for scripts. A mistake ends with exit code 2 and one "
        "sentence; Ctrl-C with 130, and what was measured is kept.",
        "",
    ]
    for name, about in COMMANDS.items():
        module = importlib.import_module(f"multipool.cli.{name}")
        parts += _command(f"multipool {name}", typer.main.get_command(module.app), about)
    return "\n".join(parts) + "\n"


def _command(name: str, command: Any, about: str, level: int = 2) -> list[str]:  # noqa: ANN401
    """Return a command's section, and those of its own commands."""
    told = inspect.cleandoc(command.help or about)
    parts = [f"{'#' * level} `{name}`", "", told, ""]
    example = (command.epilog or "").removeprefix("Example: ")
    if example:
        parts += ["```", example, "```", ""]
    rows = [_row(param) for param in command.params if param.name != "help"]
    if rows:
        parts += ["| option | default | what it does |", "| --- | --- | --- |", *rows, ""]
    for child, inner in getattr(command, "commands", {}).items():
        parts += _command(f"{name} {child}", inner, inner.help or "", level + 1)
    return parts


def _row(param: Any) -> str:  # noqa: ANN401
    flags = [*param.opts, *param.secondary_opts] if param.opts[0].startswith("-") else []
    shown = " ".join(f"`{flag}`" for flag in flags) or f"`{param.metavar or param.name.upper()}`"
    default = param.default
    plain = default is None or default is False or callable(default) or default == []
    value = "" if plain else f"<code>{str(default).replace(',', ',<wbr>')}</code>"
    said = (getattr(param, "help", "") or "").replace("|", "\\|")
    return f"| {shown} | {value} | {said} |"
