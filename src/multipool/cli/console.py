"""What commands show: a progress bar with the running error on stderr, tables on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from multipool.bench.run.runner import Progress as Step
from multipool.core import printable


class Show(Protocol):
    """Shows how far the work is, and what is being worked on."""

    def __call__(self, step: Step, title: str | None = None) -> None:
        """Show ``step``, under a new ``title`` if one is given."""


@contextmanager
def progress(title: str, quiet: bool = False) -> Iterator[Show | None]:
    """Yield a function that shows how far a run is; None if nothing is to be shown."""
    if quiet:
        yield None
        return
    counts = (MofNCompleteColumn(), TextColumn("{task.fields[error]}"), TimeRemainingColumn())
    with progress_bar(TextColumn("{task.description}"), *counts) as bar:
        task = bar.add_task(title, total=None, error="loading")

        def show(step: Step, title: str | None = None) -> None:
            text = step.stage if step.error is None else f"error {step.error:.2f} %"
            total = step.total or None
            bar.update(task, completed=step.done, total=total, error=text, description=title)

        yield show


def progress_bar(title: ProgressColumn, *rest: ProgressColumn, hidden: bool = False) -> Progress:
    """Return a bar on stderr; it is taken away when done: the result that follows says more."""
    console = Console(stderr=True)
    return Progress(title, BarColumn(), *rest, console=console, transient=True, disable=hidden)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    whole: int | None = None,
) -> None:
    """Print a table; the first ``left`` columns are words, the rest numbers.

    The first ``whole`` columns are never broken into lines; left out: all the words.
    """
    whole = left if whole is None else whole
    # A pipe has no width of its own: cut nothing there.
    width = None if sys.stdout.isatty() else 200
    grid = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        side: Literal["left", "right"] = "left" if index < left else "right"
        grid.add_column(column, justify=side, no_wrap=index < whole)
    for row in rows:
        grid.add_row(*(Text(printable(cell)) for cell in row))  # names are text, never markup
    Console(width=width).print(grid)


def print_json(value: object) -> None:
    """Print ``value`` as JSON on stdout."""
    print(json.dumps(value, indent=2, allow_nan=False))


def say(text: str, quiet: bool = False) -> None:
    """Print a line for a person on stderr, where it does not mix with the result."""
    if not quiet:
        Console(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)
