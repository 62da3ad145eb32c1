"""The comparison that ``multipool demo`` shows: four methods, three memories, one short stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from multipool.bench.report.report import number, report
from multipool.bench.report.summary import Section, sections
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.result import FILE, Result
from multipool.bench.run.runner import Progress, run
from multipool.data import COMMON

# The first six corruptions in the paper's order: taken as they come, not chosen.
DOMAINS = COMMON[:6]
PER_DOMAIN = 500  # images; fewer than 8 updates in a domain show nothing
METHODS = ("rotta", "petta", "resitta")
MEMORIES = ("single", "mcm", "mcm+")
INTRO = (
    "Four methods on a short stream of images that the package draws itself: the source model as "
    "it is, and three methods that adapt it, each with its own single pool, with the paper's "
    "multi-cluster memory (mcm) and with our variant of it (mcm+). A stream this short shows how "
    "the system works and what adapting is worth; it cannot settle small differences between "
    "memories."
)

Show = Callable[[str, int, int, Progress], None]


def experiments(seed: int = 0, per_domain: int = PER_DOMAIN) -> dict[str, Experiment]:
    """Return the demo's runs by the name of their folder.

    >>> list(experiments())[:3]
    ['source', 'rotta-single', 'rotta-mcm']
    """
    pairs: list[tuple[str, str | None]] = [("source", None)]
    pairs += [(method, memory) for method in METHODS for memory in MEMORIES]
    found = {}
    for method, memory in pairs:
        name = method if memory is None else f"{method}-{memory}"
        found[name] = Experiment(
            dataset="shapes-c",
            method=method,
            memory=memory,
            domains=DOMAINS,
            limit=per_domain * len(DOMAINS),
            seed=seed,
            device="cpu",
        )
    return found


def demo(
    out: str | Path, seed: int = 0, per_domain: int = PER_DOMAIN, show: Show | None = None
) -> tuple[Section, Path]:
    """Run the demo into ``out``; return its table and the path of its page.

    ``show`` is called with a run's name, its number, the number of runs, and its progress.
    """
    out = Path(out)
    loader = Loader()
    runs: list[Result] = []
    planned = experiments(seed, per_domain)
    for index, (name, experiment) in enumerate(planned.items()):

        def tell(step: Progress, name: str = name, index: int = index) -> None:
            if show is not None:
                show(name, index, len(planned), step)

        folder = out / "runs" / name
        (folder / FILE).unlink(missing_ok=True)  # of an earlier demo, which may be of other code
        runs.append(run(experiment, folder, tell, checkpoint_every=0, loader=loader))
    (section,) = sections(runs)
    return section, report(out, "multipool demo", INTRO)


def demo_table(section: Section) -> tuple[list[str], list[list[str]]]:
    """Return the demo's table: its columns and its rows, as text."""
    names = [domain.replace("_", "\n") for domain in section.domains]
    columns = ["method", "memory", "mean\nerror %", *names, "samples\n/s", "memory\nµs/sample"]
    rows = []
    for row in section.rows:
        errors = [number(row.domain_error(domain), 1) for domain in section.domains]
        speed, cost = number(row.speed, 0), number(row.memory_cost, 0)
        rows.append([row.method, row.memory, number(row.mean), *errors, speed, cost])
    return columns, rows


def remarks(section: Section) -> Sequence[str]:
    """Return what the table says in words, good or bad."""
    by_name = {(row.method, row.memory): row for row in section.rows}
    source = by_name[("source", "–")]
    told = []
    for method in METHODS:
        own = by_name[(method, "single")]
        gap = own.mean - source.mean
        told.append(
            f"{method}: {abs(gap):.1f} points {'below' if gap < 0 else 'above'} the source model; "
            + "; ".join(
                f"{memory} {by_name[(method, memory)].mean - own.mean:+.1f} against its own pool"
                for memory in MEMORIES[1:]
            )
        )
    return told
