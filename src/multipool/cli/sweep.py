"""``multipool sweep``: a grid of runs from one file, each of them done once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from multipool.bench.report.summary import sections
from multipool.bench.report.text import summary_table
from multipool.bench.report.verdict import verdict
from multipool.bench.run.runner import CHECKPOINT_EVERY
from multipool.bench.run.runner import Progress as Step
from multipool.bench.sweep import (
    BACKENDS,
    Ended,
    News,
    Options,
    Plan,
    Planned,
    collect_tables,
    make_plan,
    read,
    sweep,
    with_trials,
)
from multipool.bench.sweep.collect import complete
from multipool.bench.sweep.ledger import FOUND, LOST, STARTED, Tell
from multipool.bench.sweep.local import default_workers
from multipool.bench.sweep.plan import duration
from multipool.bench.sweep.work import BROKEN
from multipool.cli import options as o
from multipool.cli.console import Show, print_json, progress, say, table
from multipool.core import lookup

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool sweep grid.yaml --out results --workers 4"
_FILE = Annotated[Path, typer.Argument(metavar="FILE", help="YAML with base, grid and runs.")]
_OUT = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the runs and the tables.")]
BackendName = Annotated[str, typer.Option(metavar="NAME", help=f"One of: {', '.join(BACKENDS)}.")]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Local processes; several may share a GPU. Left out: one a GPU, or one a core; 1 for "
        "times that other runs do not spoil.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", help="Threads of a process; left out: the cores shared out."),
]
Address = Annotated[str, typer.Option(metavar="ADDRESS", help="Ray cluster; auto: the one here.")]
_CPUS = Annotated[float, typer.Option(metavar="N", help="Cores that a run needs, on Ray.")]
_GPUS = Annotated[
    float | None, typer.Option(metavar="N", help="GPUs that a run needs, on Ray; 0.25: 4 share.")
]
_RETRIES = Annotated[int, typer.Option(metavar="N", help="New tries of a run whose worker died.")]
_EVERY = Annotated[int, typer.Option(metavar="N", help="Batches between checkpoints; 0: none.")]
_DRY = Annotated[bool, typer.Option("--dry-run", help="Check the file, print plan and estimate.")]
_COLLECT = Annotated[bool, typer.Option("--collect", help="Only write the tables of --out.")]


@app.command(epilog=EXAMPLE)
def main(
    file: _FILE,
    out: _OUT = Path("multipool-sweep"),
    backend: BackendName = "local",
    workers: Workers = None,
    threads: Threads = None,
    ray_address: Address = Options.ray_address,
    cpus: _CPUS = Options.cpus,
    gpus: _GPUS = None,
    retries: _RETRIES = Options.retries,
    checkpoint_every: _EVERY = CHECKPOINT_EVERY,
    dry_run: _DRY = False,
    collect: _COLLECT = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run every combination that FILE asks for and is not done yet in --out.

    Exits with 1 if a run failed; the others are done all the same.
    """
    lookup(BACKENDS, backend, "backend")
    options = Options(workers, threads, checkpoint_every, retries, ray_address, cpus, gpus)
    runs = read(file)
    if collect:
        path = collect_tables(out)
        if json:
            print_json({"results": str(path)})
            return
        show_sections(out, quiet)
        print(path)
        return
    planned = make_plan(runs, out)
    count = workers or (default_workers(runs) if backend == "local" else 1)
    if dry_run:
        _show_plan(planned, count, json, quiet)
        return
    say(plan_sentence(planned, count), quiet or json)
    with watching(planned, count, quiet or json) as tell:
        ended = sweep(runs, out, backend=backend, options=options, tell=tell)
    _show_end(ended, out, json, quiet)
    if ended.failed:
        raise typer.Exit(1)


def plan_sentence(planned: Plan, workers: int) -> str:
    """Return how many runs are done, how many are not, and how long those may take."""
    total = len(planned.done) + len(planned.todo)
    told = f"{total} runs: {len(planned.done)} done, {len(planned.todo)} to do"
    if planned.failed:
        told += f" ({len(planned.failed)} of them failed before)"
    left = planned.left(workers)
    if left is None:
        return f"{told}; how long they take is known once the first is done"
    if planned.todo:
        many = f"{workers} worker{'s' if workers > 1 else ''}"
        told += f"; about {duration(left)} with {many}"
    return told


def _show_plan(planned: Plan, workers: int, json: bool, quiet: bool) -> None:
    """Print what would be done; kinds of runs never done before are tried for a few batches."""
    planned = with_trials(planned, tell=lambda text: say(text, quiet or json))
    if json:
        found = [_line(run, "done", None) for run in planned.done]
        found += [_line(run, "to do", planned.seconds.get(run.name)) for run in planned.todo]
        print_json({"runs": found, "workers": workers, "seconds": planned.left(workers)})
        return
    if not quiet:
        rows = [[run.name, "done", ""] for run in planned.done]
        for run in planned.todo:
            seconds = planned.seconds.get(run.name)
            state = "failed before" if run.name in planned.failed else "to do"
            rows.append([run.name, state, "?" if seconds is None else duration(seconds)])
        table("plan", ["run", "state", "estimate"], rows, left=2)
    print(plan_sentence(planned, workers))


def _line(run: Planned, state: str, seconds: float | None) -> dict[str, object]:
    return {"run": run.name, "label": run.label, "state": state, "seconds": seconds}


def _show_end(ended: Ended, out: Path, json: bool, quiet: bool) -> None:
    if json:
        content = {
            "done": list(ended.done),
            "found": list(ended.found),
            "failed": dict(ended.failed),
            "results": None if ended.results is None else str(ended.results),
        }
        print_json(content)
        return
    for name, sentence in ended.failed.items():
        say(f"failed: {name}: {sentence}")
    if ended.results is not None:
        show_sections(out, quiet)
        print(ended.results)
    say(f"{len(ended.done)} done, {len(ended.failed)} failed; multipool report {out}", quiet)


def show_sections(out: Path, quiet: bool) -> None:
    """Print a table of the runs in ``out`` for each stream, and what it says in words."""
    for section in [] if quiet else sections([run for _, run in complete(out)]):
        columns, rows = summary_table(section)
        where = f"{section.context['dataset']}, {section.context['protocol']}"
        table(where, columns, rows, left=2)
        print(verdict(section.rows))


@contextmanager
def watching(planned: Plan, workers: int, quiet: bool) -> Iterator[Tell | None]:
    """Yield what shows how far a sweep is; None if nothing is to be shown."""
    try:
        with progress("sweep", quiet) as show:
            yield None if show is None else _Watch(show, planned, workers)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from where it stopped", quiet)
        raise


class _Watch:
    """Shows how many runs are done and how long the rest may take."""

    def __init__(self, show: Show, planned: Plan, workers: int) -> None:
        self.show, self.total = show, len(planned.todo)
        self.done = self.failed = 0
        self.running: set[str] = set()
        self.began = time.monotonic()
        self.before = planned.left(workers)

    def __call__(self, news: News) -> None:
        """Take in what happened to a run."""
        if news.state == STARTED:
            self.running.add(news.run.name)
        elif news.state == LOST:
            self.running.discard(news.run.name)
        elif news.outcome is not None and news.state != FOUND:
            self.running.discard(news.run.name)
            self.done += 1
            self.failed += news.state == BROKEN
        told = f"{len(self.running)} running, {self.failed} failed{self._left()}"
        self.show(Step(self.done, self.total, None, told))

    def _left(self) -> str:
        spent = time.monotonic() - self.began
        if self.done:
            return f", about {duration(spent / self.done * (self.total - self.done))} left"
        return "" if self.before is None else f", about {duration(self.before)} in all"
