"""The ``multipool`` command: finds the sub-command; every user error becomes one sentence."""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from multipool import __version__

# Name -> what it does. The work is in the file of the same name in this room, under `app`.
COMMANDS: dict[str, str] = {
    "demo": "Compare methods and memories on the embedded dataset, in two minutes.",
    "run": "Run one method on one stream and write what it got right.",
    "sweep": "Run a grid of experiments from a file, each of them once.",
    "compare": "Run methods on many kinds of stream; say which one to use.",
    "reproduce": "Make a table or figure of the paper again, beside its numbers.",
    "serve": "Serve a model that adapts to each of its streams, over HTTP.",
    "report": "Make one page of all the runs in a folder.",
    "statistics": "Make source statistics once, for methods that need them.",
    "diagnose": "Count a stream's modes; measure how well memories cover it.",
    "corrupt": "Write a corrupted copy of a clean dataset.",
    "data": "List, check and fetch datasets.",
    "train": "Train a source model.",
    "bench": "Measure the speed of methods, memories and corruptions.",
}

# typer brings its own click in newer versions, so the classes are found through typer.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called."""

    listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """Return the names in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Import and return a command; while help is printed, only a stand-in with its text."""
        if cmd_name not in COMMANDS:
            return None
        if self.listing:
            return _stand_in(cmd_name)
        module = importlib.import_module(f"multipool.cli.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Print the help without importing anything."""
        self.listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: multipool demo",
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"multipool {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Test-time adaptation with a multi-cluster memory."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 2 a mistake in the call, 130 interrupted.

    With ``MULTIPOOL_TRACEBACK`` in the environment an error shows where it came from.
    """
    given = list(sys.argv[1:] if args is None else args) or ["--help"]
    warnings.showwarning = _warn
    try:
        code = typer.main.get_command(app).main(
            args=given, prog_name="multipool", standalone_mode=False
        )
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except _ClickException as error:
        code = _fail(_sentence(error, given))
    except (ValueError, FileNotFoundError) as error:
        if os.environ.get("MULTIPOOL_TRACEBACK"):
            raise
        code = _fail(_with_option(_said(error), given))
    except OSError as error:
        _fail(_said(error))
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _said(error: Exception) -> str:
    """Return an error's sentence; of what the system itself says, without its number."""
    path = getattr(error, "filename", None)
    return f"{getattr(error, 'strerror', '')}: {path}" if path else str(error)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line; where in the code it was raised helps nobody here."""
    print("warning: " + " ".join(str(message).split()), file=sys.stderr)


def _fail(sentence: str) -> int:
    """Print one line on stderr and return the exit code of a mistaken call."""
    print("error: " + " ".join(sentence.split()), file=sys.stderr)
    return 2


def _sentence(error: Exception, given: Sequence[str]) -> str:
    """Return what is wrong with a call, naming the choices where there are some."""
    from multipool.core import unknown

    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    if option is not None and context is not None:
        known = [name for param in context.command.params for name in param.opts]
        return str(unknown("option", option, [*known, "--help"]))
    text = str(getattr(error, "format_message", error.__str__)())
    if text.startswith("No such command"):
        commands = list(getattr(context.command, "commands", {})) if context else []
        name = text.split("'")[1] if "'" in text else ""
        return str(unknown("command", name, commands or COMMANDS))
    if told := _number(text, getattr(getattr(error, "param", None), "opts", ()), given):
        return told
    if isinstance(error, _UsageError) and context is not None:
        return f"{text.rstrip('.')}; '{context.command_path} --help' shows the options"
    return text


def _number(text: str, flags: Sequence[str], given: Sequence[str]) -> str:
    """Return what is wrong with a number, in our words; empty if it is something else.

    What typer says differs from version to version, and not all versions say what came.

    >>> _number("'x' is not a valid integer", ["--seed"], ["run", "--seed=x"])
    "--seed must be a whole number, got 'x'"
    """
    words = [part for word in given for part in word.split("=", 1)]  # --seed=x is --seed x
    came = [value for flag, value in zip(words, words[1:], strict=False) if flag in flags]
    kind = re.search(r"\bvalid (integer|float|number)\b", text)
    if kind is None or not came:
        return ""
    return f"{flags[0]} must be a {'whole ' * (kind[1] == 'integer')}number, got {came[-1]!r}"


def _with_option(sentence: str, given: Sequence[str]) -> str:
    """Return a library's sentence about ``batch_size`` as one about ``--batch-size``."""
    command: Any = typer.main.get_command(app)
    for word in given:
        try:
            inner = command.get_command(None, word) if hasattr(command, "get_command") else None
        except ValueError:  # it cannot be imported, which is what the sentence says
            return sentence
        if inner is None:
            break
        command = inner
    known = {flag for param in command.params for flag in param.opts}
    first, _, rest = sentence.partition(" ")
    option = f"--{first.replace('_', '-')}"
    return f"{option} {rest}" if option in known and rest.startswith("must ") else sentence


def _stand_in(name: str) -> Any:  # noqa: ANN401
    small = typer.Typer(add_completion=False)
    small.command(name=name, help=COMMANDS[name])(lambda: None)
    return typer.main.get_command(small)


if __name__ == "__main__":
    main()
