"""``python -m multipool.bench.sweep``: a sweep where typer, rich and yaml are not installed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from multipool.bench.sweep.collect import collect_tables
from multipool.bench.sweep.drive import BACKENDS, Ended, sweep
from multipool.bench.sweep.grid import read
from multipool.bench.sweep.ledger import FOUND, RUNNING, STARTED, News
from multipool.bench.sweep.options import Options
from multipool.bench.sweep.plan import make_plan


def main(words: Sequence[str] | None = None) -> int:
    """Run a sweep and return the exit code: 0 all done, 1 some failed, 2 a mistake, 130 stopped."""
    given = _parser().parse_args(words)
    try:
        runs = read(given.file)
        if given.collect:
            print(collect_tables(given.out))
            return 0
        planned = make_plan(runs, given.out)
        print(f"{len(runs)} runs, {len(planned.done)} done, {len(planned.todo)} to do", flush=True)
        if given.dry_run:
            print("\n".join(run.name for run in planned.todo))
            return 0
        options = Options(
            workers=given.workers,
            threads=given.threads,
            retries=given.retries,
            checkpoint_every=given.checkpoint_every,
            ray_address=given.ray_address,
            cpus=given.cpus,
            gpus=given.gpus,
        )
        ended = sweep(runs, given.out, backend=given.backend, options=options, tell=tell)
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return _close(ended)


def _close(ended: Ended) -> int:
    for name, sentence in ended.failed.items():
        print(f"failed: {name}: {sentence}", file=sys.stderr)
    print(f"{len(ended.done)} done, {len(ended.failed)} failed; table: {ended.results}")
    return 1 if ended.failed else 0


def tell(news: News) -> None:
    """Print a line when a run ends or is lost."""
    if news.state in (FOUND, STARTED, RUNNING) or news.outcome is None:
        return
    error = "" if news.outcome.error is None else f" error {news.outcome.error:.2f} %"
    told = f"{error} {news.outcome.seconds:.0f} s" if error else f" {news.outcome.sentence}"
    print(f"{news.state} {news.run.name}{told}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="multipool.bench.sweep", description=__doc__)
    parser.add_argument("file", help="YAML or JSON file with base, grid and runs")
    parser.add_argument("--out", required=True, help="folder of the sweep")
    parser.add_argument("--backend", default="local", choices=sorted(BACKENDS))
    parser.add_argument("--workers", type=int, help="processes; several may share a GPU")
    parser.add_argument("--threads", type=int, help="threads of each process")
    parser.add_argument("--retries", type=int, default=Options.retries)
    parser.add_argument("--checkpoint-every", type=int, default=Options.checkpoint_every)
    parser.add_argument("--ray-address", default=Options.ray_address)
    parser.add_argument("--cpus", type=float, default=Options.cpus, help="a run needs, on Ray")
    parser.add_argument("--gpus", type=float, help="a run needs, on Ray; 0.25: four share one")
    parser.add_argument("--dry-run", action="store_true", help="print the plan only")
    parser.add_argument("--collect", action="store_true", help="write the tables only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
